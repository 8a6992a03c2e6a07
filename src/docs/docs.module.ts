import { Module } from '@nestjs/common';
import { DocsController } from './docs.controller.js';
import { DocsRedirectsController } from './docs-redirects.controller.js';

@Module({ controllers: [DocsController, DocsRedirectsController] })
export class DocsModule {}
