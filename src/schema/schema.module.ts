import { Module } from '@nestjs/common';
import { SchemaMonitor } from './schema-monitor.js';

@Module({ providers: [SchemaMonitor], exports: [SchemaMonitor] })
export class SchemaModule {}
