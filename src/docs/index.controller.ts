import { Controller, Get, Header, HttpStatus, Inject, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { stringify } from 'lossless-json';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { JsonText } from '../http/json-text.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';

/** What the service is: an index of its addresses, and the OpenAPI document. No key is needed. */
@Public()
@Controller()
export class IndexController {
  private readonly hasDocs: boolean;
  private readonly index: Readonly<Record<string, unknown>>;
  private readonly json: JsonText;

  constructor(
    @Inject(Environment) { DOCS, publicRoot }: Environment,
    private readonly document: OpenApiDocument,
  ) {
    const { title, version } = document.content.info;
    this.json = new JsonText(stringify(document.content)!);
    this.hasDocs = DOCS === 'on';
    this.index = {
      name: title,
      version,
      pets: `${publicRoot}/v1/pets`,
      openapi: `${publicRoot}/openapi.json`,
      ...(this.hasDocs ? { docs: `${publicRoot}/docs` } : {}),
      health: { live: `${publicRoot}/health/live`, ready: `${publicRoot}/health/ready` },
    };
  }

  /** The index; for clients that prefer HTML to JSON, such as browsers, 303 to `/docs`. */
  @Get()
  getIndex(@Req() request: Request, @Res({ passthrough: true }) response: Response) {
    response.vary('Accept');
    if (this.hasDocs && request.accepts(['json', 'html']) === 'html') {
      // Relative to the request's address, so that it is valid behind any proxy.
      response.setHeader('Location', './docs');
      response.statusCode = HttpStatus.SEE_OTHER;
    }
    return this.index;
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
