import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

it("the OpenAPI document keeps Redocly's recommended rules, and one with errors does not", async () => {
  const config = await createConfig({ extends: ['recommended'] });
  const source = readFileSync(join(PROJECT_ROOT, 'docs/openapi.yaml'), 'utf8');
  expect(await lintFromString({ source, config })).toEqual([]);
  const faulty = source.replace('operationId: getPet', 'operationId: listPets');
  expect(await lintFromString({ source: faulty, config })).not.toEqual([]);
});
