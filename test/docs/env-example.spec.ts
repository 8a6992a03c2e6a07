import { parseEnv } from 'node:util';
import { isApiKey } from '../../src/api-key.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { read } from '../support/documents.js';

describe('.env.example', () => {
  const text = read('.env.example');
  const variables = parseEnv(text) as Record<string, string>;

  it('has exactly the variables that are read, and explains each', () => {
    const ofCompose = ['DATABASE_PORT', 'BALANCER_PORT', 'PROMETHEUS_PORT', 'GRAFANA_PORT'];
    const ofKeys = ['LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
    const read = [...Object.keys(new Environment()), ...ofKeys, ...ofCompose].toSorted();
    expect(Object.keys(variables).toSorted()).toEqual(read);
    expect(read.filter((name) => !new RegExp(`^#.+\n${name}=`, 'm').test(text))).toEqual([]);
  });

  it('changes nothing if it is used as it is, and has a key that the service accepts', () => {
    expect(readEnvironment(variables)).toEqual(readEnvironment({}));
    expect(isApiKey(variables['LOCAL_API_KEY']!)).toBe(true);
  });
});
