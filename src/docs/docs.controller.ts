import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, join } from 'node:path';
import { Controller, Get, Header, Param, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { ApiError } from '../errors/api-error.js';
import { renderPages } from './pages.js';
import { StaticContent } from './static-content.js';

const { resolve } = createRequire(import.meta.url);

const HTML = 'text/html; charset=utf-8';

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** The files that pages load, by name. */
function readAssets(): Map<string, StaticContent> {
  const files = [
    ...readdirSync(join(PROJECT_ROOT, 'public')).map((name) => join(PROJECT_ROOT, 'public', name)),
    resolve('swagger-ui-dist/swagger-ui.css'),
    resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  ];
  return new Map(
    files.map((file) => [
      basename(file),
      new StaticContent(readFileSync(file), TYPES[extname(file)]!),
    ]),
  );
}

/** A page loads files only from this service, connects only to it, and runs no inline scripts. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Serves the reference page, the guides, and the files that they load. No key is needed. */
@Public()
@Controller('docs')
export class DocsController {
  private readonly assets = readAssets();
  private readonly pages = new Map(
    Array.from(renderPages(), ([path, html]) => [path, new StaticContent(html, HTML)]),
  );

  @Get(['', 'guides/:name'])
  @Header('Cache-Control', 'no-cache')
  @Header('Content-Security-Policy', POLICY)
  @Header('Referrer-Policy', 'no-referrer')
  getPage(@Res() response: Response, @Param('name') name?: string): Promise<void> {
    const path = name === undefined ? 'docs' : `docs/guides/${name}`;
    return known(this.pages.get(path)).sendTo(response);
  }

  @Get('assets/:name')
  getAsset(@Param('name') name: string, @Res() response: Response): Promise<void> {
    const asset = known(this.assets.get(name));
    response.setHeader('Cache-Control', 'public, max-age=3600');
    return asset.sendTo(response);
  }
}

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) {
    throw new ApiError('route_not_found', 'No such path.');
  }
  return thing;
}
