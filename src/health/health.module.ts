import { Module } from '@nestjs/common';
import { SchemaModule } from '../schema/schema.module.js';
import { HealthController } from './health.controller.js';

@Module({ imports: [SchemaModule], controllers: [HealthController] })
export class HealthModule {}
