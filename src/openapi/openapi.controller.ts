import { Controller, Get, Inject, type Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { stringify } from 'lossless-json';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { JsonText } from '../http/json-text.js';
import { openApiDocument } from './openapi-document.js';

/** The OpenAPI document, for people and programs that have no key yet. */
@Public()
@Controller('openapi.json')
export class OpenApiController {
  private readonly document: JsonText;

  constructor(discovery: DiscoveryService, @Inject(Environment) environment: Environment) {
    const controllers = discovery.getControllers().map(({ metatype }) => metatype as Type);
    this.document = new JsonText(stringify(openApiDocument(controllers, environment))!);
  }

  @Get()
  openApi(): JsonText {
    return this.document;
  }
}
