import {
  BadRequestException,
  Body,
  Controller,
  Get,
  Header,
  NotFoundException,
  Param,
  Post,
  Query,
  Res,
  UseInterceptors,
} from '@nestjs/common';
import type { Response } from 'express';
import { DEPRECATION_HEADERS, Fault, int64FromDecimal, nextLink, startOf } from '../../contract.js';
import { PetJsonInterceptor } from './pet-json.interceptor.js';
import type { Pet } from './pet.entity.js';
import { CreatePetDto, ListPetsQuery } from './pets.dto.js';
import { PetsService } from './pets.service.js';

@Controller('pets')
@UseInterceptors(PetJsonInterceptor)
export class PetsController {
  constructor(private readonly pets: PetsService) {}

  @Get()
  async list(
    @Query() { limit, status, cursor }: ListPetsQuery,
    @Res({ passthrough: true }) response: Response,
  ): Promise<Pet[]> {
    const page = { limit, status, start: startOfPage(cursor) };
    const { pets, last } = await this.pets.list(page);
    if (last !== undefined) {
      response.setHeader('Link', nextLink(page, last));
    }
    return pets;
  }

  @Post()
  async create(
    @Body() body: CreatePetDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<Pet> {
    const pet = await this.pets.create(body);
    response.setHeader('Location', `/v1/pets/${pet.id}`);
    return pet;
  }

  @Get(':petId')
  @Header('Deprecation', DEPRECATION_HEADERS['Deprecation']!)
  @Header('Sunset', DEPRECATION_HEADERS['Sunset']!)
  @Header('Link', DEPRECATION_HEADERS['Link']!)
  async get(@Param('petId') petId: string): Promise<Pet> {
    const id = int64FromDecimal(petId);
    const pet = id === undefined ? null : await this.pets.get(id);
    if (pet === null) {
      throw new NotFoundException(Fault.noSuchPet().body);
    }
    return pet;
  }
}

function startOfPage(cursor: string | undefined): bigint {
  try {
    return startOf(cursor);
  } catch (fault: any) {
    throw new BadRequestException(fault.body);
  }
}
