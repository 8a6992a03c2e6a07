import { Body, Controller, Get, Inject, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Environment } from '../config/environment.js';
import { Deprecated } from '../deprecation/deprecation.interceptor.js';
import { GET_PET_DEPRECATION } from '../deprecation/deprecation.js';
import { IdempotencyKeyHeader } from './idempotency-key.decorator.js';
import { int64FromDecimal } from '../int64.js';
import type { Request } from '../http/express-classes.js';
import { JsonText } from '../http/json-text.js';
import { pageResponse } from '../listing/page-response.js';
import { ListPetsQuery } from './list-pets-query.dto.js';
import { NewPet } from './new-pet.dto.js';
import { IdempotentCreation, type IdempotentRequest } from './idempotent-creation.js';
import { PetsService, type StoredPet } from './pets.service.js';

/** listPets, createPet and getPet (interface, part 4). */
@Controller({ path: 'pets', version: '1' })
export class PetsController {
  private readonly address: string;

  constructor(
    private readonly pets: PetsService,
    private readonly idempotentCreation: IdempotentCreation,
    @Inject(Environment) { baseUrl }: Environment,
  ) {
    this.address = `${baseUrl}/pets`;
  }

  @Get()
  async listPets(
    @Query() { limit, status, cursor }: ListPetsQuery,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const page = await this.pets.list({ limit, filter: status, after: cursor });
    const filter = status === undefined ? '' : `&status=${status}`;
    const address = `${this.address}?limit=${limit}${filter}`;
    return pageResponse(response, page, address);
  }

  @Post()
  async createPet(
    @Body() pet: NewPet,
    @IdempotencyKeyHeader() key: string | undefined,
    @Req() { user }: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const { id, json } =
      key === undefined
        ? await this.pets.create(pet)
        : await this.createOnce({ apiKeyId: user!.keyId, key, pet }, response);
    response.setHeader('Location', `${this.address}/${id}`);
    return new JsonText(json);
  }

  private async createOnce(request: IdempotentRequest, response: Response): Promise<StoredPet> {
    const { pet, isReplayed } = await this.idempotentCreation.create(request);
    if (isReplayed) {
      response.setHeader('Idempotent-Replayed', 'true');
    }
    return pet;
  }

  @Get(':petId')
  @Deprecated(GET_PET_DEPRECATION)
  async getPet(@Param('petId') petId: string): Promise<JsonText> {
    return new JsonText((await this.pets.get(int64FromDecimal(petId))).json);
  }
}
