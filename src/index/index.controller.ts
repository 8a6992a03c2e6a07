import { Controller, Get, HttpStatus, Inject, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { TITLE, VERSION } from '../openapi/openapi-document.js';

/** `GET /`: redirects people to the reference page, and lists the addresses for programs. No key is needed. */
@Public()
@Controller()
export class IndexController {
  private readonly hasDocs: boolean;
  private readonly index: Readonly<Record<string, unknown>>;

  constructor(@Inject(Environment) { DOCS, publicRoot }: Environment) {
    this.hasDocs = DOCS === 'on';
    this.index = {
      name: TITLE,
      version: VERSION,
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
}
