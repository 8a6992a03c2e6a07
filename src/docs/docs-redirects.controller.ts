import { Controller, Get, HttpStatus, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Public } from '../auth/public.decorator.js';
import { ApiError } from '../errors/api-error.js';
import { loadIcon } from './assets.js';

/**
 * Redirects paths that people type or browsers request, but that are not pages. A client that prefers the media type of
 * the target to JSON gets 303. Any other client gets 404, as for an unknown path.
 */
@Public()
@Controller()
export class DocsRedirectsController {
  /** By path: the target's media type and its address. The address is relative, so it is valid behind any proxy. */
  private readonly redirects: ReadonlyMap<string, { mediaType: string; location: string }>;

  constructor() {
    const icon = loadIcon();
    const html = 'text/html';
    this.redirects = new Map([
      ['/docs/', { mediaType: html, location: '../docs' }],
      ['/docs/guides', { mediaType: html, location: './guides/getting-started' }],
      ['/docs/guides/', { mediaType: html, location: './getting-started' }],
      ['/favicon.ico', { mediaType: icon.mediaType, location: `./docs/assets/${icon.path}` }],
    ]);
  }

  @Get(['docs{/}', 'docs/guides{/}', 'favicon.ico'])
  redirect(@Req() request: Request, @Res({ passthrough: true }) response: Response): void {
    response.vary('Accept');
    const redirect = this.redirects.get(request.path);
    if (
      redirect === undefined ||
      request.accepts(['json', redirect.mediaType]) !== redirect.mediaType
    ) {
      throw new ApiError('route_not_found', 'No such path.');
    }
    response.setHeader('Location', redirect.location);
    response.statusCode = HttpStatus.SEE_OTHER;
  }
}
