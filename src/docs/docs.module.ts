import { type DynamicModule, Module } from '@nestjs/common';
import type { Environment } from '../config/environment.js';
import { OpenApiModule } from '../openapi/openapi.module.js';
import { DocsController } from './docs.controller.js';
import { IndexController } from './index.controller.js';

/** `GET /`, the OpenAPI document, and the pages unless `DOCS` is off. */
@Module({ imports: [OpenApiModule] })
export class DocsModule {
  static forRoot({ DOCS }: Environment): DynamicModule {
    const pages = DOCS === 'on' ? [DocsController] : [];
    return { module: DocsModule, controllers: [IndexController, ...pages] };
  }
}
