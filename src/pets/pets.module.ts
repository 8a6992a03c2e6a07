import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { SessionShare } from '../database/session-share.js';
import { IdempotentCreation } from './idempotent-creation.js';
import { Pet } from './pet.entity.js';
import { PetsController } from './pets.controller.js';
import { PetsService } from './pets.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([Pet])],
  controllers: [PetsController],
  providers: [SessionShare, PetsService, IdempotentCreation],
})
export class PetsModule {}
