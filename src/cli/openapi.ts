import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'lossless-json';
import { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { openApiDocument } from '../openapi/openapi-document.js';
import { OrdersController } from '../orders/orders.controller.js';
import { PetsController } from '../pets/pets.controller.js';

/** Writes `docs/openapi.json`. Its content does not depend on environment variables. */
export async function writeDocument(): Promise<void> {
  const production = Object.assign(new Environment(), { DEPLOYMENT_ENVIRONMENT: 'production' });
  const document = openApiDocument([PetsController, OrdersController], production);
  await writeFile(
    join(PROJECT_ROOT, 'docs/openapi.json'),
    `${stringify(document, undefined, 2)}\n`,
  );
}
