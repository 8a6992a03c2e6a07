import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { MoreThanOrEqual, Repository } from 'typeorm';
import { Pet } from './pet.entity.js';
import type { CreatePetDto } from './pets.dto.js';

@Injectable()
export class PetsService {
  constructor(@InjectRepository(Pet) private readonly pets: Repository<Pet>) {}

  async list(page: { limit: number; status?: string | undefined; start: bigint }) {
    const pets = await this.pets.find({
      where: {
        id: MoreThanOrEqual(String(page.start)),
        ...(page.status === undefined ? {} : { status: page.status }),
      },
      order: { id: 'ASC' },
      take: page.limit + 1,
    });
    const isLast = pets.length <= page.limit;
    return { pets: pets.slice(0, page.limit), last: isLast ? undefined : pets.at(-2)!.id };
  }

  get(id: bigint): Promise<Pet | null> {
    return this.pets.findOneBy({ id: String(id) });
  }

  create({ name, categoryId, status }: CreatePetDto): Promise<Pet> {
    return this.pets.save({ name, categoryId: String(categoryId), status });
  }
}
