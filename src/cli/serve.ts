import type { AddressInfo } from 'node:net';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { DataSource } from 'typeorm';
import { createApp } from '../app.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { ApiKeys } from '../auth/api-keys.js';
import type { Environment } from '../config/environment.js';
import { administer, connectToServe, DATA_FOLDER, onDatabase } from '../database/database.js';
import { requireMigrated } from '../database/pending-migrations.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { createLogger } from '../logging/logger.js';

/**
 * Milliseconds in which a second SIGTERM counts as the first: npm passes it on, and a supervisor may send it to npm and
 * to the service.
 */
const SAME_SIGTERM = 1000;

/** Runs the service until a signal stops it. */
export async function serve(environment: Environment): Promise<void> {
  tuneHeap();
  const stopping = new AbortController();
  /** A person does not wait until balancers notice, nor does whoever signals twice. */
  const hurrying = new AbortController();
  let stoppingSince = Infinity;
  let isServing = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (!isServing && environment.DATABASE_URL !== undefined) {
        // It waits for a database, or for another's migrations, and has nothing yet to end in order.
        process.exit();
      }
      const now = performance.now();
      if (signal !== 'SIGTERM' || now - stoppingSince > SAME_SIGTERM) {
        hurrying.abort();
      }
      stoppingSince = Math.min(stoppingSince, now);
      stopping.abort();
    });
  }
  try {
    await onDatabase(environment, async ({ url, isEmbedded }) => {
      await requireMigrated(url, environment);
      const key = isEmbedded ? await administer(url, localKey) : undefined;
      isServing = true;
      await serveFrom(url, environment, key, stopping.signal, hurrying.signal);
    });
  } catch (error) {
    // Ctrl-C reaches what a first start runs too, and what fails by it is no news.
    if (isServing || !stopping.signal.aborted) {
      throw error;
    }
  }
}

/** The key that an embedded database is used with, made on its first start and kept beside it. */
async function localKey(dataSource: DataSource): Promise<string> {
  const file = join(DATA_FOLDER, 'api-key');
  const kept = (await readFile(file, 'utf8').catch(() => '')).trim();
  const keys = new ApiKeys(dataSource.getRepository(ApiKey));
  if (await keys.isLasting(kept)) {
    return kept;
  }
  const { key } = await keys.issue('local');
  await writeFile(file, `${key}\n`, { mode: 0o600 });
  return key;
}

async function serveFrom(
  url: string,
  environment: Environment,
  key: string | undefined,
  stopping: AbortSignal,
  hurrying: AbortSignal,
): Promise<void> {
  const logger = createLogger(environment.LOG_LEVEL);
  const dataSource = await connectToServe(url, environment);
  try {
    const app = await createApp({ environment, dataSource, logger });
    await app.listen(environment.PORT, environment.HOST);
    const { port } = app.getHttpServer().address() as AddressInfo;
    const host = environment.HOST.includes(':') ? `[${environment.HOST}]` : environment.HOST;
    announce(`http://${host}:${port}/v1`, key);
    if (!stopping.aborted) {
      await new Promise((resolve) => stopping.addEventListener('abort', resolve));
    }
    if (environment.DRAIN_SECONDS > 0) {
      const adapter = app.getHttpAdapter() as HttpAdapter;
      await adapter.drain(environment.DRAIN_SECONDS * 1000, hurrying);
    }
    await app.close();
  } finally {
    if (dataSource.isInitialized) {
      await dataSource.destroy();
    }
    logger.flush();
  }
}

function announce(base: string, key: string | undefined): void {
  console.log(`Animal Store Service at ${base}`);
  if (key !== undefined) {
    console.log(`API key: ${key}`);
    console.log(`Try it:  curl -H 'Authorization: Bearer ${key}' ${base}/pets`);
  }
}

/** Settings of V8 for a process that serves for long. */
function tuneHeap(): void {
  // V8 lets its heap double and more between two full collections. Collecting sooner bounds the memory of a process
  // under load, at no cost that could be measured.
  setFlagsFromString('--heap-growing-percent=30');
  // V8 takes what a busy moment kept for what lives long, and allocates all of its kind among the old from then on: up
  // to half of the processor's time goes into collecting it (seen on Node 24).
  setFlagsFromString('--no-allocation-site-pretenuring');
}
