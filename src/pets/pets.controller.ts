import {
  Body,
  Controller,
  Get,
  Param,
  Post,
  Query,
  Req,
  Res,
  UseInterceptors,
} from '@nestjs/common';
import type { Response } from 'express';
import { Environment } from '../config/environment.js';
import { DeprecationInterceptor } from '../deprecation/deprecation.interceptor.js';
import { JsonOnly } from '../http/body.guard.js';
import { JsonText, type Request } from '../http/express-classes.js';
import { int64FromDecimal } from '../int64.js';
import { pageResponse } from '../listing/list-query.js';
import { IdempotencyKeyHeader } from './idempotency-key.decorator.js';
import { IdempotentCreation } from './idempotent-creation.js';
import { ListPetsQuery } from './list-pets-query.dto.js';
import { NewPet } from './new-pet.dto.js';
import type { StoredPet } from './pet-store.js';
import { PetsService } from './pets.service.js';

/** listPets, createPet and getPet (interface, part 4). */
@Controller({ path: 'pets', version: '1' })
export class PetsController {
  private readonly address: string;

  constructor(
    private readonly pets: PetsService,
    private readonly idempotentCreation: IdempotentCreation,
    { baseUrl }: Environment,
  ) {
    this.address = `${baseUrl}/pets`;
  }

  @Get()
  async listPets(
    @Query() query: ListPetsQuery,
    @Req() { deadline }: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const page = await this.pets.list(query, deadline);
    return pageResponse(response, page, this.address, query);
  }

  @Post()
  @JsonOnly()
  async createPet(
    @Body() pet: NewPet,
    @IdempotencyKeyHeader() key: string | undefined,
    @Req() { user, deadline }: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const { id, json, isReplayed }: StoredPet & { isReplayed?: boolean } =
      key === undefined
        ? await this.pets.create(pet, deadline)
        : await this.idempotentCreation.create(user!.keyId, key, pet, deadline);
    response.setHeader('Location', `${this.address}/${id}`);
    if (isReplayed) {
      response.setHeader('Idempotent-Replayed', 'true');
    }
    return new JsonText(json);
  }

  @Get(':petId')
  @UseInterceptors(DeprecationInterceptor)
  async getPet(@Param('petId') petId: string, @Req() { deadline }: Request): Promise<JsonText> {
    return new JsonText((await this.pets.get(int64FromDecimal(petId), deadline)).json);
  }
}
