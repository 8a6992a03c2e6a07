import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { parse } from 'yaml';
import { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';

export interface Operation {
  operationId: string;
  method: string;
  path: string;
  summary: string;
  tags: string[];
  deprecated?: boolean;
}

/** `docs/openapi.yaml` with the servers of this environment, and links to the guides of this service if it has them. */
@Injectable()
export class OpenApiDocument {
  readonly yaml: string;
  /** Its integers are bigints, because a number cannot hold the bounds of int64. */
  readonly content: any;

  constructor(environment: Environment) {
    const { DOCS, publicRoot } = environment;
    const servers = JSON.stringify(serversOf(environment));
    // Functions, because a URL may contain `$&`, which has a meaning in a replacement.
    this.yaml = readFileSync(join(PROJECT_ROOT, 'docs/openapi.yaml'), 'utf8')
      .replace(/^servers:\n(?: .*\n)+/m, () => `servers: ${servers}\n`)
      .replaceAll(/\n\n *More in \[.+\]\(\/docs\/.+\)\.$/gm, DOCS === 'on' ? '$&' : '')
      .replaceAll('](/docs/', () => `](${publicRoot}/docs/`);
    this.content = parse(this.yaml, { intAsBigInt: true });
  }

  get operations(): Operation[] {
    return Object.entries<object>(this.content.paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([, member]) => 'operationId' in member)
        .map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
    );
  }
}

/** This server. If `STAGING_BASE_URL` is set and this is not staging, also that one (interface, part 1). */
function serversOf({ baseUrl, deployment, STAGING_BASE_URL }: Environment) {
  const description = deployment[0]!.toUpperCase() + deployment.slice(1);
  const isOther = deployment !== 'staging' && STAGING_BASE_URL !== undefined;
  const staging = isOther ? [{ url: STAGING_BASE_URL, description: 'Staging' }] : [];
  return [{ url: baseUrl, description }, ...staging];
}
