import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { parse } from 'yaml';
import { isApiKey } from '../../src/api-key.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { read } from '../support/documents.js';

const EXAMPLE = read('.env.example');
const variables = parseEnv(EXAMPLE) as Record<string, string>;
/** Those of docker-compose.yml alone. */
const OF_COMPOSE = ['DATABASE_PORT', 'BALANCER_PORT', 'PROMETHEUS_PORT', 'GRAFANA_PORT'];

describe('.env.example', () => {
  it('has exactly the variables that are read, and explains each', () => {
    const ofKeys = ['LOCAL_API_KEY', 'LOCAL_API_KEY_FILE'];
    const known = [...Object.keys(new Environment()), ...ofKeys, ...OF_COMPOSE].toSorted();
    expect(Object.keys(variables).toSorted()).toEqual(known);
    expect(known.filter((name) => !new RegExp(`^#.+\n${name}=`, 'm').test(EXAMPLE))).toEqual([]);
  });

  it('changes nothing if it is used as it is, and has a key that the service accepts', () => {
    expect(readEnvironment(variables)).toEqual(readEnvironment({}));
    expect(isApiKey(variables['LOCAL_API_KEY']!)).toBe(true);
  });
});

describe('docker-compose.yml', () => {
  const { services } = parse(read('docker-compose.yml'), { merge: true });

  it('gives each variable of .env.example to the service, or publishes a port at it', () => {
    const { environment, ports, build } = services.api;
    const given = Object.entries<string | number>({ ...environment, ...build.args })
      .filter(([name, value]) => `${value}`.startsWith(`\${${name}:`))
      .map(([name]) => name);
    const published = [...ports.join().matchAll(/\$\{(\w+)/g)].map(([, name]) => name!);
    const all = new Set([...given, ...published, ...OF_COMPOSE]);
    expect([...all].toSorted()).toEqual(Object.keys(variables).toSorted());
    expect(services.migrate.environment).toEqual(environment);
    expect(ports[0]).toMatch(`${environment.PUBLISHED_HOST}:`);
  });

  it('mounts, and watches, only what exists', () => {
    const mounted = Object.values<{ volumes?: string[] }>(services)
      .flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')[0]!))
      .filter((path) => path.startsWith('./'));
    const watched = services.api.develop.watch.map(({ path }: { path: string }) => path);
    const paths = [...mounted, ...watched];
    expect(paths.length).toBeGreaterThan(8);
    expect(paths.filter((path) => !existsSync(join(PROJECT_ROOT, path)))).toEqual([]);
  });
});
