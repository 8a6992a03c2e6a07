import { Module } from '@nestjs/common';
import { OpenApiDocument } from './openapi-document.js';

@Module({ providers: [OpenApiDocument], exports: [OpenApiDocument] })
export class OpenApiModule {}
