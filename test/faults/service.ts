/** What a fault run breaks: the built service as a process, and its database. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ask, query } from '../support/ask.js';
import { freePort } from '../../scripts/free-port.mjs';
import type { Postgres } from '../support/postgres.js';
import { Program } from '../support/program.js';
import { until } from '../support/until.js';
import { read } from '../support/documents.js';

export interface Run {
  postgres: Postgres;
  /** An API key. */
  key: string;
  isShort: boolean;
  /** How often each is done; `seconds` is how long a fault lasts, `minutes` how long the soak. */
  count: { kills: number; failovers: number; seconds: number; minutes: number };
}

/** What `npm run start:prod` gives to Node. */
const ARGUMENTS = JSON.parse(read('package.json')).scripts['start:prod'].split(' ').slice(2);

/** The service, built, as production runs it; its log is discarded. It ends with this process. */
export class Service {
  private constructor(
    readonly port: number,
    private readonly program: Program,
  ) {}

  /** @param variables besides those of production. */
  static async start(databaseUrl: string, variables: NodeJS.ProcessEnv = {}): Promise<Service> {
    const port = Number(variables['PORT'] ?? (await freePort()));
    const program = Program.start(process.execPath, ARGUMENTS, {
      cwd: PROJECT_ROOT,
      env: {
        PATH: process.env['PATH'],
        NODE_ENV: 'production',
        DATABASE_URL: databaseUrl,
        HOST: '127.0.0.1',
        PORT: String(port),
        DRAIN_SECONDS: '0',
        // The defaults, whatever the project's .env says.
        DATABASE_POOL_SIZE: '10',
        LOG_LEVEL: 'info',
        RATE_LIMIT_PER_MINUTE: '',
        CORS_ORIGINS: '',
        TRUST_PROXY: '',
        METRICS_PORT: '',
        ...variables,
      },
      isQuiet: true,
    });
    const service = new Service(port, program);
    await until('the service is live', async () => {
      if (program.hasEnded) {
        throw new Error(`The service did not start: ${program.stderr}`);
      }
      const response = await fetch(`${service.origin}/health/live`).catch(() => undefined);
      return response?.ok === true;
    });
    return service;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async kill(): Promise<void> {
    await this.program.end('SIGKILL');
  }

  /** How many files and sockets it has open. */
  async files(): Promise<number> {
    return (await readdir(`/proc/${this.program.processId}/fd`)).length;
  }

  /** Looks five times a second how much memory it has with its sockets' buffers, which a container's limit counts too. */
  watchMemory(): () => number {
    let peak = 0;
    const look = async () => {
      const { stdout } = await promisify(execFile)('ss', ['-Htm', 'sport', `= :${this.port}`], {
        maxBuffer: 2 ** 26,
      });
      const sockets = Array.from(
        stdout.matchAll(/skmem:\(r(\d+),.*?,w(\d+),/g),
        ([, read, write]) => {
          return Number(read) + Number(write);
        },
      );
      const status = await readFile(`/proc/${this.program.processId}/status`, 'utf8');
      const own = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
      peak = Math.max(peak, own + sockets.reduce((sum, bytes) => sum + bytes, 0) / 2 ** 20);
    };
    const timer = setInterval(() => void look().catch(() => {}), 200);
    return () => {
      clearInterval(timer);
      return Math.round(peak);
    };
  }

  /** MiB of resident memory at its peak. */
  async memory(): Promise<number> {
    const status = await readFile(`/proc/${this.program.processId}/status`, 'utf8');
    return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024);
  }
}

/** How many sessions services have in the database at `url`. */
export async function sessions(url: string): Promise<number> {
  const ours = `from pg_stat_activity where application_name = 'animal-store'`;
  return (await ask(url, `select count(*)::int ${ours}`)).count;
}

/** Leaves so many pets, with ids from 1, and names from the SQL expression `name`, in which `n` is the id. */
export const fill = (url: string, count: number, name = `'pet ' || n`) =>
  query(
    url,
    'truncate pets restart identity cascade',
    `insert into pets (name, category_id) select ${name}, n from generate_series(1, ${count}) as n`,
  );
