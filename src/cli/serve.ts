import { executionAsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { isApiKey } from '../api-key.js';
import { createApp } from '../app.js';
import type { Resources } from '../app.module.js';
import { administerKeys, type ApiKeys } from '../auth/api-keys.js';
import { loadEnvironment } from '../config/environment.js';
import { VERSION } from '../config/project-root.js';
import { HealthService } from '../health/health.service.js';
import { requireMigrated } from '../schema/migrations.js';
import { createLogger } from '../logging/logger.js';
import { MetricsServer } from '../metrics/metrics-server.js';
import { DATA_FOLDER, onDatabase } from './command.js';

/** Keeps the shape of ticks alive: if V8 drops it before it compiles `nextTick`, each call takes seven times as long. */
const keptTicks: object[] = [];

export async function serve(): Promise<void> {
  const environment = loadEnvironment();
  process.nextTick(() => keptTicks.push(executionAsyncResource()));
  // Earlier full collections bound the memory of a process under load, at no measurable cost.
  setFlagsFromString('--heap-growing-percent=30');
  // After a peak, V8 would allocate objects in the old generation, whose collection takes up to half of the CPU time.
  setFlagsFromString('--no-allocation-site-pretenuring');
  const logger = createLogger(environment.LOG_LEVEL);
  const stopping = new AbortController();
  let isServing = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // As of a process without a handler, so that a supervisor starts the service again: nobody asked it to stop.
      if (signal === 'SIGHUP' && !stopping.signal.aborted) {
        process.exitCode = 129;
      }
      // While it waits for a database, or for another process's migrations, it has to close only an embedded PostgreSQL.
      if (!isServing && environment.DATABASE_URL !== undefined) {
        logger.info({ reason: signal }, 'stopped');
        logger.flush(() => process.exit());
      }
      stopping.abort(signal);
    });
  }
  try {
    await onDatabase(environment, async ({ url, isEmbedded }) => {
      await requireMigrated(url, environment);
      const key = isEmbedded ? await administerKeys(url, localKey) : undefined;
      if (!stopping.signal.aborted) {
        isServing = true;
        await serveWith({ environment, databaseUrl: url, logger }, key, stopping.signal);
      }
    });
  } catch (error) {
    // On a first start, Ctrl-C also ends initdb, a child process. Errors that result from that are not reported.
    if (isServing || !stopping.signal.aborted) {
      throw error;
    }
    logger.flush();
  }
}

/** The API key for an embedded database. It is created on the first start and stored in a file beside the data. */
async function localKey(keys: ApiKeys): Promise<string> {
  const file = join(DATA_FOLDER, 'api-key');
  const kept = (await readFile(file, 'utf8').catch(() => '')).trim();
  if (isApiKey(kept) && (await keys.admit(kept, 'local'))) {
    return kept;
  }
  const { key } = await keys.issue('local');
  await writeFile(file, `${key}\n`, { mode: 0o600 });
  return key;
}

async function serveWith(resources: Resources, key: string | undefined, stopping: AbortSignal) {
  const { environment, logger } = resources;
  const { NODE_ENV, HOST, PORT, METRICS_PORT, DRAIN_SECONDS, COMMIT } = environment;
  process.on('uncaughtException', (err) => {
    logger.fatal({ err, reason: 'error' }, 'stopped');
    console.error(err);
    // At the exit, lines that cannot be written would be tried forever.
    logger.flush(() => process.exit(1));
  });
  // A mistake in one request, such as a promise that nothing awaits, does not end the others.
  process.on('unhandledRejection', (err) => logger.error({ err }, 'A promise was rejected'));
  const app = await createApp(resources);
  try {
    await app.listen(PORT, environment.listenHost!);
    const host = HOST === '*' ? 'localhost' : HOST;
    const origin = `http://${host.includes(':') ? `[${host}]` : host}`;
    const address = `${origin}:${(app.getHttpServer().address() as AddressInfo).port}/v1`;
    const metrics =
      METRICS_PORT === undefined
        ? undefined
        : `${origin}:${app.get(MetricsServer, { strict: false }).port}/metrics`;
    const { version: node, pid } = process;
    const health = app.get(HealthService, { strict: false });
    // For the time of the database. Readiness says what is wrong with it.
    await health.ready(performance.now() + 1_000).catch(() => {});
    const { clockAhead } = health;
    const line = { version: VERSION, commit: COMMIT, node, pid, address, metrics, clockAhead };
    logger.info(line, 'started');
    if (NODE_ENV === 'production' && environment.RATE_LIMIT_PER_MINUTE === undefined) {
      const reason =
        'One API key can fill the disk: 3 MiB/s of creates are 8 MB/s of tables and log.';
      logger.warn({ reason }, 'RATE_LIMIT_PER_MINUTE is not set');
    }
    if (NODE_ENV !== 'production') {
      console.log(`Animal Store Service at ${address}`);
      console.log(
        key === undefined
          ? 'API keys: npm run keys -- create --name NAME prints a new one.'
          : `API key: ${key}\nTry it:  curl -H 'Authorization: Bearer ${key}' ${address}/pets`,
      );
    }
    if (!stopping.aborted) {
      await new Promise((resolve) => stopping.addEventListener('abort', resolve));
    }
    if (DRAIN_SECONDS > 0 && stopping.reason === 'SIGTERM') {
      logger.info({ reason: stopping.reason, seconds: DRAIN_SECONDS }, 'draining');
      health.isStopping = true;
      await Promise.race([
        wait(DRAIN_SECONDS * 1000, undefined, { ref: false }),
        once(process, 'SIGINT'),
      ]);
    }
  } finally {
    await app.close();
  }
  logger.info({ reason: stopping.reason }, 'stopped');
  logger.flush();
}
