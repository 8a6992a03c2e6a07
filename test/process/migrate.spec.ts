import { Client } from 'pg';
import { migrations } from '../../migrations/index.js';
import { administer } from '../../src/database/database.js';
import { createDatabase, dropDatabase } from '../service.js';
import { Project } from './project.js';
import { until } from './until.js';

const WAITS = 'Another process migrates this database; this one waits for it.\n';

describe('the migrations', () => {
  const names = migrations.map(({ name }) => name);
  const shown = (applied: number) =>
    names.map((name, i) => `[${i < applied ? 'X' : ' '}] ${name}`).join('\n');
  let project: Project;
  let DATABASE_URL: string;
  beforeAll(async () => {
    project = await Project.create();
    DATABASE_URL = await createDatabase();
  });
  afterAll(async () => {
    await project.remove();
    await dropDatabase(DATABASE_URL);
  });

  async function migrate(command: string): Promise<string> {
    const outcome = await project.run('migrate', [command], { DATABASE_URL });
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    return outcome.stdout.trimEnd();
  }

  it('are shown, run and reverted by the command', async () => {
    expect(await migrate('show')).toBe(shown(0));
    expect(await migrate('run')).toBe(`Applied ${names.join(', ')}.`);
    expect(await migrate('run')).toBe('Nothing is pending.');
    expect(await migrate('show')).toBe(shown(names.length));
    for (let applied = names.length; applied > 0; applied -= 1) {
      expect(await migrate('revert')).toBe(`Reverted ${names[applied - 1]}.`);
      expect(await migrate('show')).toBe(shown(applied - 1));
    }
    expect(await migrate('revert')).toBe('Nothing is applied.');
  });

  it('are not made a second time in a schema that was put before theirs', async () => {
    await migrate('run');
    await administer(DATABASE_URL, (dataSource) => dataSource.query('create schema postgres'));
    for (const command of ['run', 'revert']) {
      const outcome = await project.run('migrate', [command], { DATABASE_URL });
      expect([outcome.code, outcome.stdout]).toEqual([1, '']);
      expect(outcome.stderr).toMatch(/^The tables are in the schema public, .*\n$/);
    }
    await administer(DATABASE_URL, (dataSource) => dataSource.query('drop schema postgres'));
    while ((await migrate('revert')) !== 'Nothing is applied.');
  });

  it('stop a process that waits for those of another, and that then applies none', async () => {
    const variables = { DATABASE_URL, MIGRATE_ON_START: 'true' };
    await administer(DATABASE_URL, async (dataSource) => {
      await dataSource.query('select pg_advisory_lock(7236102511)');
      const waiting = project.spawn('serve', [], variables);
      await until('it waits', async () => {
        const waiters = await dataSource.query(
          `select from pg_locks where locktype = 'advisory' and not granted
              and database = (select oid from pg_database where datname = current_database())`,
        );
        return waiters.length === 1;
      });
      expect(await waiting.end('SIGTERM')).toEqual({
        code: 0,
        stdout: '',
        stderr: WAITS,
      });
    });
    expect(await migrate('show')).toBe(shown(0));
  });

  it('are left alone by a command that is misspelt, which gives its usage', async () => {
    for (const args of [[], ['drop'], ['run', 'all']]) {
      const outcome = await project.run('migrate', args, { DATABASE_URL });
      expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining('Usage:') });
    }
  });

  it('are applied once each by four processes that start at once on an empty database', async () => {
    const variables = { NODE_ENV: 'production', DATABASE_URL, MIGRATE_ON_START: 'true' };
    const services = await Promise.all(Array.from({ length: 4 }, () => project.serve(variables)));
    for (const { base } of services) {
      const answer = await fetch(new URL('/health/ready', base));
      expect(answer.status).toBe(200);
    }

    const client = new Client({ connectionString: DATABASE_URL });
    await client.connect();
    const { rows } = await client.query('select name from migrations order by timestamp');
    await client.end();
    expect(rows.map(({ name }) => name)).toEqual(migrations.map(({ name }) => name));

    const outcomes = await Promise.all(services.map(({ program }) => program.end('SIGTERM')));
    const inOrder = { code: 0, stderr: expect.stringMatching(new RegExp(`^(${WAITS})?$`)) };
    expect(outcomes).toEqual(outcomes.map(() => expect.objectContaining(inOrder)));
    // The key is for whoever tries the service out on its embedded database.
    expect(outcomes.map(({ stdout }) => stdout).join()).not.toContain('API key');
  });
});
