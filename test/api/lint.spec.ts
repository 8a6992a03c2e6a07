import { createConfig, lintFromString } from '@redocly/openapi-core';
import spectralCore, { type RulesetDefinition } from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';
import { parse } from 'yaml';
import { read } from '../support/documents.js';

async function redocly(source: string): Promise<object[]> {
  const config = await createConfig({ extends: ['recommended'] });
  return lintFromString({ source, config });
}

async function spectral(source: string): Promise<object[]> {
  const linter = new spectralCore.Spectral();
  linter.setRuleset({ extends: [[oas as RulesetDefinition, 'recommended']] });
  return linter.run(parse(source));
}

it.each([
  ["Redocly's recommended rules", redocly],
  ["Spectral's rules for OpenAPI", spectral],
])('%s are kept by the OpenAPI document, and not by one with errors', async (_title, lint) => {
  const source = read('docs/openapi.yaml');
  expect(await lint(source)).toEqual([]);
  const faulty = source.replace('operationId: getPet', 'operationId: listPets');
  expect(await lint(faulty.replace(/^ +license: .*\n/m, ''))).not.toEqual([]);
});
