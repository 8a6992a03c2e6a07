import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { Controller, Get, Param, Res } from '@nestjs/common';
import { Public } from '../auth/public.decorator.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { ApiError } from '../errors/api-error.js';
import { Representation } from '../http/representation.js';
import { addHeaders, type Response } from '../http/response.js';
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

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

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
  getReference(@Res({ passthrough: true }) response: Response): Representation {
    return this.page('docs', response);
  }

  @Get('guides/:name')
  getGuide(
    @Param('name') name: string,
    @Res({ passthrough: true }) response: Response,
  ): Representation {
    return this.page(`docs/guides/${name}`, response);
  }

  @Get('assets/:name')
  getAsset(
    @Param('name') name: string,
    @Res({ passthrough: true }) response: Response,
  ): Representation {
    const file = known(ASSETS.get(name));
    addHeaders(response, { 'Cache-Control': 'public, max-age=3600' });
    return new Representation(readFileSync(file), MEDIA_TYPES[extname(name)]!);
  }

  private page(path: string, response: Response): Representation {
    const html = known(this.pages.get(path));
    addHeaders(response, PAGE_HEADERS);
    return new Representation(html, 'text/html; charset=utf-8');
  }
}

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) {
    throw new ApiError('route_not_found', 'No such path.');
  }
  return thing;
}
