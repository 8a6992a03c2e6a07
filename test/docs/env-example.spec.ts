import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { isApiKey } from '../../src/api-key.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

describe('.env.example', () => {
  const text = readFileSync(join(PROJECT_ROOT, '.env.example'), 'utf8');
  const variables = parseEnv(text) as Record<string, string>;

  it('has exactly the variables that are read', () => {
    const ofCompose = ['DATABASE_PORT', 'BALANCER_PORT', 'PROMETHEUS_PORT', 'GRAFANA_PORT'];
    const ofKeys = ['LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
    const read = [...Object.keys(new Environment()), ...ofKeys, ...ofCompose];
    expect(Object.keys(variables).toSorted()).toEqual(read.toSorted());
  });

  it('explains each', () => {
    for (const name of Object.keys(variables)) {
      expect(text).toMatch(new RegExp(`^#.+\n${name}=`, 'm'));
    }
  });

  it('changes nothing when used as it is', () => {
    expect(readEnvironment(variables)).toEqual(readEnvironment({}));
  });

  it('has a key that the service accepts', () => {
    expect(isApiKey(variables['LOCAL_API_KEY']!)).toBe(true);
  });
});
