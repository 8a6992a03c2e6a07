import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Controller, Get, Param, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { ApiError } from '../errors/api-error.js';
import { renderPages } from './pages.js';

const { resolve } = createRequire(import.meta.url);

/** The files that pages load, by name. */
const ASSETS = new Map([
  ...['docs.css', 'reference.css', 'reference.js', 'guide.js', 'icon.svg'].map(
    (name): [string, string] => [name, join(PROJECT_ROOT, 'public', name)],
  ),
  ...['swagger-ui.css', 'swagger-ui-bundle.js'].map((name): [string, string] => [
    name,
    resolve(`swagger-ui-dist/${name}`),
  ]),
]);

/** A page loads files only from this service, connects only to it, and runs no inline scripts. */
const PAGE_HEADERS = {
  'Cache-Control': 'no-cache',
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Referrer-Policy': 'no-referrer',
};

/** Serves the reference page, the guides, and the files that they load. No key is needed. */
@Public()
@Controller('docs')
export class DocsController {
  private readonly pages = renderPages();

  @Get()
  getReference(@Res({ passthrough: true }) response: Response): string {
    return this.page('docs', response);
  }

  @Get('guides/:name')
  getGuide(@Param('name') name: string, @Res({ passthrough: true }) response: Response): string {
    return this.page(`docs/guides/${name}`, response);
  }

  @Get('assets/:name')
  getAsset(@Param('name') name: string, @Res() response: Response): void {
    // A date would keep the files of a later release when an earlier one is deployed again.
    const options = { lastModified: false, headers: { 'Cache-Control': 'public, max-age=3600' } };
    response.sendFile(known(ASSETS.get(name)), options);
  }

  private page(path: string, response: Response): string {
    const html = known(this.pages.get(path));
    response.set(PAGE_HEADERS);
    return html;
  }
}

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) {
    throw new ApiError('route_not_found', 'No such path.');
  }
  return thing;
}
