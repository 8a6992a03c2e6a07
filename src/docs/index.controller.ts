import { Controller, Get, Header, HttpStatus, Redirect } from '@nestjs/common';
import { stringify } from 'lossless-json';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { JsonText } from '../http/express-classes.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';

/** The OpenAPI document, and the way to the reference. No key is needed. */
@Public()
@Controller()
export class IndexController {
  private readonly json: JsonText;
  private readonly home;

  constructor(
    { DOCS }: Environment,
    private readonly document: OpenApiDocument,
  ) {
    this.json = new JsonText(stringify(document.content)!);
    // Relative to the request's address, so that it is valid behind any proxy.
    this.home = { url: DOCS === 'on' ? './docs' : './openapi.json' };
  }

  @Get()
  @Redirect('', HttpStatus.SEE_OTHER)
  getIndex() {
    return this.home;
  }

  @Get('openapi.json')
  getJson(): JsonText {
    return this.json;
  }

  @Get('openapi.yaml')
  @Header('Content-Type', 'application/yaml')
  getYaml(): string {
    return this.document.yaml;
  }
}
