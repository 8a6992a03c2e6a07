import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { forEngine } from '../database/for-engine.js';
import { CitusPetStore } from './citus-pet-store.js';
import { IdempotentCreation } from './idempotent-creation.js';
import { Pet } from './pet.entity.js';
import { PetStore } from './pet-store.js';
import { PetsController } from './pets.controller.js';
import { PetsService } from './pets.service.js';
import { PostgresPetStore } from './postgres-pet-store.js';

@Module({
  imports: [TypeOrmModule.forFeature([Pet])],
  controllers: [PetsController],
  providers: [
    forEngine(PetStore, { postgresql: PostgresPetStore, citus: CitusPetStore }),
    PetsService,
    IdempotentCreation,
  ],
})
export class PetsModule {}
