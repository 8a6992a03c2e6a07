import { Controller, Get, Param, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { ApiError } from '../errors/api-error.js';
import { type Asset, loadAssets } from './assets.js';
import { loadGuides } from './guides.js';
import { pageMaker } from './page.js';

/** Serves the reference page, the guides, and every file that they load. No key is needed. */
@Public()
@Controller('docs')
export class DocsController {
  private readonly reference: string;
  private readonly guides: ReadonlyMap<string, string>;
  private readonly assets: ReadonlyMap<string, Asset>;

  constructor() {
    const assets = loadAssets();
    const guides = loadGuides();
    const pages = pageMaker(assets, guides);
    this.reference = pages.reference();
    this.guides = new Map(guides.map((guide) => [guide.name, pages.guide(guide)]));
    this.assets = new Map(Object.values(assets).map((asset) => [asset.path, asset]));
  }

  @Get()
  getReference(@Res() response: Response): void {
    return page(this.reference, response);
  }

  @Get('guides/:name')
  getGuide(@Param('name') name: string, @Res() response: Response): void {
    return page(known(this.guides.get(name)), response);
  }

  @Get('assets/:digest/:name')
  async getAsset(
    @Param('digest') digest: string,
    @Param('name') name: string,
    @Req() request: Request,
    @Res() response: Response,
  ): Promise<void> {
    const asset = known(this.assets.get(`${digest}/${name}`));
    const isGzip = request.acceptsEncodings('gzip') === 'gzip';
    const bytes = isGzip ? await asset.gzip() : asset.bytes;
    response.vary('Accept-Encoding');
    response.set({
      'Cache-Control': 'public, max-age=31536000, immutable',
      ...(isGzip ? { 'Content-Encoding': 'gzip' } : {}),
    });
    response.set('Content-Type', asset.mediaType).send(Buffer.from(bytes));
  }
}

function page(html: string, response: Response): void {
  response.set(PAGE_HEADERS);
  response.set('Content-Type', 'text/html; charset=utf-8').send(html);
}

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

function known<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) {
    throw new ApiError('route_not_found', 'No such path.');
  }
  return thing;
}
