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
  private readonly json: JsonText;

  constructor(
    @Inject(Environment) private readonly environment: Environment,
    private readonly document: OpenApiDocument,
  ) {
    this.json = new JsonText(stringify(document.content)!);
  }

  /** The index; for clients that prefer HTML to JSON, such as browsers, 303 to `/docs`. */
  @Get()
  getIndex(@Req() request: Request, @Res({ passthrough: true }) response: Response) {
    const { DOCS, publicRoot } = this.environment;
    const { title: name, version } = this.document.content.info;
    response.vary('Accept');
    if (DOCS === 'on' && request.accepts(['json', 'html']) === 'html') {
      // Relative to the request's address, so that it is valid behind any proxy.
      response.status(HttpStatus.SEE_OTHER).location('./docs');
    }
    return {
      name,
      version,
      pets: `${publicRoot}/v1/pets`,
      openapi: `${publicRoot}/openapi.json`,
      ...(DOCS === 'on' && { docs: `${publicRoot}/docs` }),
      health: { live: `${publicRoot}/health/live`, ready: `${publicRoot}/health/ready` },
    };
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
