import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import spectralCore, { type RulesetDefinition } from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';
import { parse } from 'yaml';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

async function redocly(source: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source, config });
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`);
}

async function spectral(source: string): Promise<string[]> {
  const linter = new spectralCore.Spectral();
  linter.setRuleset({ extends: [[oas as RulesetDefinition, 'recommended']] });
  const problems = await linter.run(parse(source));
  return problems.map(({ code, path, message }) => `${code}: ${path.join('.')}: ${message}`);
}

describe.each([
  ["Redocly's recommended rules", redocly],
  ["Spectral's rules for OpenAPI", spectral],
])('%s', (_title, lint) => {
  const source = readFileSync(join(PROJECT_ROOT, 'docs/openapi.yaml'), 'utf8');

  it('are kept by the OpenAPI document, and not by one with errors', async () => {
    expect(await lint(source)).toEqual([]);
    const faulty = source.replace('operationId: getPet', 'operationId: listPets');
    expect(await lint(faulty.replace(/^ +license: .*\n/m, ''))).not.toEqual([]);
  });
});
