import { Module } from '@nestjs/common';
import { SchemaMonitor } from '../schema/schema-monitor.js';
import { HealthController } from './health.controller.js';
import { HealthService } from './health.service.js';

@Module({
  controllers: [HealthController],
  providers: [SchemaMonitor, HealthService],
  exports: [SchemaMonitor, HealthService],
})
export class HealthModule {}
