import { Module } from '@nestjs/common';
import { IdempotentCreation } from './idempotent-creation.js';
import { PetsController } from './pets.controller.js';
import { PetsService } from './pets.service.js';

@Module({ controllers: [PetsController], providers: [PetsService, IdempotentCreation] })
export class PetsModule {}
