import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { PROJECT_ROOT } from '../config/project-root.js';

/**
 * A file that pages load. Its path contains a hash of its content, so browsers can cache it without checking it again.
 */
export class Asset {
  /** Below `/docs/assets/`. */
  readonly path: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array;
  private gzipped?: Promise<Uint8Array>;

  constructor(name: string, file: string) {
    this.bytes = readFileSync(file);
    const digest = createHash('sha256').update(this.bytes).digest('hex');
    this.path = `${digest.slice(0, 16)}/${name}`;
    this.mediaType = MEDIA_TYPES[extname(name)]!;
  }

  /** Compresses the file once, at the first call, in another thread. */
  gzip(): Promise<Uint8Array> {
    this.gzipped ??= promisify(gzip)(this.bytes);
    return this.gzipped;
  }
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const { resolve } = createRequire(import.meta.url);

const own = (name: string) => new Asset(name, join(PROJECT_ROOT, 'public', name));
const swaggerUi = (name: string) => new Asset(name, resolve(`swagger-ui-dist/${name}`));

export const loadIcon = () => own('icon.svg');

/** Every file that the pages load. */
export const loadAssets = () => ({
  icon: loadIcon(),
  style: own('docs.css'),
  guideScript: own('guide.js'),
  referenceStyle: own('reference.css'),
  referenceScript: own('reference.js'),
  swaggerUi: swaggerUi('swagger-ui-bundle.js'),
  swaggerUiStyle: swaggerUi('swagger-ui.css'),
});

export type Assets = ReturnType<typeof loadAssets>;
