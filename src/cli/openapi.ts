import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { parse, stringify } from 'lossless-json';
import { AppModule } from '../app.module.js';
import { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { administrativeDataSource } from '../database/data-source.js';
import { createLogger } from '../logging/logger.js';
import { OpenApiController } from '../openapi/openapi.controller.js';
import { program } from './program.js';

/** `npm run openapi`: writes `docs/openapi.json`, whatever this machine's environment. The database is never opened. */
async function writeDocument(): Promise<void> {
  const surroundings = {
    environment: new Environment(),
    dataSource: administrativeDataSource('postgres://localhost'),
    logger: createLogger('silent'),
  };
  const app = await NestFactory.create(AppModule.in(surroundings), { logger: false });
  const { text } = app.get(OpenApiController).openApi();
  await writeFile(
    join(PROJECT_ROOT, 'docs/openapi.json'),
    `${stringify(parse(text), undefined, 2)}\n`,
  );
}

await program(writeDocument);
