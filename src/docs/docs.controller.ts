import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, join } from 'node:path';
import { Controller, Get, HttpStatus, Redirect, Res } from '@nestjs/common';
import type { Response } from 'express';
import { stringify } from 'lossless-json';
import { Public } from '../auth/public.decorator.js';
import { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { ApiError } from '../errors/api-error.js';
import { OpenApiDocument } from '../openapi/openapi-document.js';
import { renderPages } from './pages.js';
import { StaticContent } from './static-content.js';

const { resolve } = createRequire(import.meta.url);

const PAGE_HEADERS = {
  'Cache-Control': 'no-cache',
  // A page loads files only from this service, connects only to it, and runs no inline scripts.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
};

const ASSET_HEADERS = { 'Cache-Control': 'no-cache' };

/** The reference page with this text in Markdown, the guides, and the files that they load, by path. */
export function readPages(text = ''): Map<string, StaticContent> {
  const contents = new Map<string, StaticContent>();
  const ours = join(PROJECT_ROOT, 'public');
  for (const file of [
    ...readdirSync(ours).map((name) => join(ours, name)),
    resolve('swagger-ui-dist/swagger-ui.css'),
    resolve('swagger-ui-dist/swagger-ui-bundle.js'),
  ]) {
    const content = new StaticContent(readFileSync(file), extname(file), ASSET_HEADERS);
    contents.set(`/docs/assets/${basename(file)}`, content);
  }
  for (const [path, html] of renderPages(text)) {
    // After an upgrade, a page loads the files of its own version.
    const versioned = html.replaceAll(
      /(\/docs\/assets\/[\w.-]+)"/g,
      (_all, asset) => `${asset}?v=${contents.get(asset)!.hash}"`,
    );
    contents.set(`/${path}`, new StaticContent(versioned, '.html', PAGE_HEADERS));
  }
  return contents;
}

/** Serves the OpenAPI document, and the way to it or to the reference. No key is needed. */
@Public()
@Controller()
export class IndexController {
  protected readonly contents: Map<string, StaticContent>;
  private readonly home;

  constructor({ DOCS, publicRoot }: Environment, document: OpenApiDocument) {
    this.contents = new Map([
      ['/openapi.yaml', new StaticContent(document.yaml, 'application/yaml; charset=utf-8')],
      ['/openapi.json', new StaticContent(stringify(document.content)!, '.json')],
    ]);
    const [, prefix] = /^https?:\/\/[^/]+(\/.+)$/.exec(publicRoot) ?? [];
    this.home = { url: `${prefix ?? '.'}/${DOCS === 'on' ? 'docs' : 'openapi.json'}` };
  }

  @Get()
  @Redirect('', HttpStatus.SEE_OTHER)
  getIndex() {
    return this.home;
  }

  @Get(['openapi.json', 'openapi.yaml'])
  getContent(@Res() response: Response): Promise<void> {
    const content = this.contents.get(response.req.path);
    if (content === undefined) {
      throw new ApiError('route_not_found', 'No such path.');
    }
    return content.sendTo(response);
  }
}

/** Also serves the pages. Unless DOCS is off, it is there in place of the other one. */
@Public()
@Controller()
export class DocsController extends IndexController {
  constructor(environment: Environment, document: OpenApiDocument) {
    super(environment, document);
    const operations = document.operations.map(
      ({ method, path, tags, operationId, summary }) =>
        `- [\`${method} ${path}\`](#/${tags[0]}/${operationId}) ${summary}`,
    );
    const text = [document.content.info.description, '## Operations', operations.join('\n')];
    readPages(text.join('\n\n')).forEach((content, path) => this.contents.set(path, content));
  }

  @Get(['docs', 'docs/guides/:name', 'docs/assets/:name'])
  getPage(@Res() response: Response): Promise<void> {
    return this.getContent(response);
  }
}
