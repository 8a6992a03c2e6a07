import { Controller, Get, HttpStatus, Redirect, Res } from '@nestjs/common';
import type { Response } from 'express';
import { stringify } from 'lossless-json';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';
import { StaticContent } from './static-content.js';

/** The OpenAPI document, and the way to the reference. No key is needed. */
@Public()
@Controller()
export class IndexController {
  private readonly json;
  private readonly yaml;
  private readonly home;

  constructor({ DOCS, publicRoot }: Environment, document: OpenApiDocument) {
    this.json = new StaticContent(stringify(document.content)!, '.json');
    this.yaml = new StaticContent(document.yaml, 'application/yaml; charset=utf-8');
    const [, prefix] = /^https?:\/\/[^/]+(\/.+)$/.exec(publicRoot) ?? [];
    this.home = { url: `${prefix ?? '.'}/${DOCS === 'on' ? 'docs' : 'openapi.json'}` };
  }

  @Get()
  @Redirect('', HttpStatus.SEE_OTHER)
  getIndex() {
    return this.home;
  }

  @Get('openapi.json')
  getJson(@Res() response: Response): Promise<void> {
    return this.json.sendTo(response);
  }

  @Get('openapi.yaml')
  getYaml(@Res() response: Response): Promise<void> {
    return this.yaml.sendTo(response);
  }
}
