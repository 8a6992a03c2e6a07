import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { Environment, readEnvironment } from '../../src/config/environment.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');
const unit = read('deploy/animal-store@.service');
const valueOf = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)![1]!;

describe('deploy/animal-store@.service', () => {
  it('starts the service as npm run start:prod does, on the port that the instance names', () => {
    const start = JSON.parse(read('package.json')).scripts['start:prod'];
    expect(`exec ${valueOf('ExecStart')}`).toBe(
      `${start.replace(' node', ' /usr/bin/node')} serve`,
    );
    const variables = valueOf('Environment').replaceAll('%i', '3000').split(' ');
    const values = Object.fromEntries(variables.map((variable) => variable.split('=')));
    expect(Object.keys(new Environment())).toEqual(expect.arrayContaining(Object.keys(values)));
    const { DATABASE_URL_FILE: _, ...others } = values;
    const environment = readEnvironment({ ...others, DATABASE_URL: 'postgres://db/animals' });
    expect(environment).toMatchObject({ NODE_ENV: 'production', PORT: 3000 });
  });

  it('gives a process the time that the longest DRAIN_SECONDS needs', () => {
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThanOrEqual(60 + 15);
  });

  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
  // A developer's machine may have no systemd; in CI these tests run, and fail without it.
  (hasSystemd || process.env['CI'] ? it : it.skip)('is a unit that systemd reads', () => {
    const folder = mkdtempSync(join(tmpdir(), 'animal-store-systemd-'));
    const file = join(folder, 'animal-store@3000.service');
    writeFileSync(file, unit.replace('/usr/bin/node', process.execPath));
    const analyze = (...args: string[]) =>
      spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    expect(analyze('verify')).toMatchObject({ status: 0, stderr: '' });
    // Of 100 for a unit that restricts nothing.
    expect(analyze('security', '--offline=true', '--threshold=20')).toMatchObject({ status: 0 });
    rmSync(folder, { recursive: true });
  });
});
