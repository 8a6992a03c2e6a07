import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { Controller, Get, Header, Param, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { ApiError } from '../errors/api-error.js';
import { renderPages } from './pages.js';

const { resolve } = createRequire(import.meta.url);

/** The files that pages load, by name. */
const ASSETS = new Map(
  [
    ...readdirSync(join(PROJECT_ROOT, 'public')).map((name) => join(PROJECT_ROOT, 'public', name)),
    resolve('swagger-ui-dist/swagger-ui.css'),
    resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  ].map((file) => [basename(file), file]),
);

/** A page loads files only from this service, connects only to it, and runs no inline scripts. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Serves the reference page, the guides, and the files that they load. No key is needed. */
@Public()
@Controller('docs')
export class DocsController {
  private readonly pages = renderPages();

  @Get(['', 'guides/:name'])
  @Header('Cache-Control', 'no-cache')
  @Header('Content-Security-Policy', POLICY)
  @Header('Referrer-Policy', 'no-referrer')
  getPage(@Param('name') name?: string): string {
    return known(this.pages.get(name === undefined ? 'docs' : `docs/guides/${name}`));
  }

  @Get('assets/:name')
  getAsset(@Param('name') name: string, @Res() response: Response): void {
    // With Last-Modified, browsers would keep the files of a later release after a rollback.
    const options = { lastModified: false, headers: { 'Cache-Control': 'public, max-age=3600' } };
    response.sendFile(known(ASSETS.get(name)), options);
  }
}

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) {
    throw new ApiError('route_not_found', 'No such path.');
  }
  return thing;
}
