// Generates clients from the OpenAPI document of a running service, compiles them, and uses each against the service:
// the one at BASE (up to and with /v1) with the API key KEY, or else the built service of this checkout.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createClient } from '@hey-api/openapi-ts';
import orval from 'orval';

const HERE = new URL('.', import.meta.url);
const PROJECT_ROOT = new URL('../..', HERE);
const BUILD = new URL('dist/', HERE);

/** What each client prints: an int64 beyond 2^53, and the statuses and codes of errors, which it reads by their types. */
const EXPECTED = `9007199254740993
400 invalid_request
401 invalid_api_key
404 pet_not_found
`;

/** Runs a program in the folder of the generated clients. */
const run = (program, args, options = {}) =>
  execFileSync(program, args, { cwd: BUILD, stdio: 'inherit', timeout: 60_000, ...options });

/** Starts the service on its embedded PostgreSQL. */
async function startService() {
  const { DATABASE_URL: _, DATABASE_URL_FILE: __, ...env } = process.env;
  const service = spawn(process.execPath, ['dist/src/main.js'], {
    cwd: PROJECT_ROOT,
    env: { ...env, PORT: '0', DRAIN_SECONDS: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const stop = async () => {
    service.stdout.resume();
    service.kill();
    await once(service, 'exit');
  };
  let base = '';
  for await (const line of createInterface({ input: service.stdout })) {
    base = /^Animal Store Service at (\S+)$/.exec(line)?.[1] ?? base;
    const [, key] = /^API key: (\S+)$/.exec(line) ?? [];
    if (key !== undefined) {
      return { base, key, stop };
    }
  }
  throw new Error('The service did not start.');
}

/** Writes the OpenAPI document, the clients' programs, and the guide's samples, which keep int64s exact. */
async function prepare(base) {
  rmSync(BUILD, { recursive: true, force: true });
  mkdirSync(BUILD);
  const document = await fetch(`${base.replace(/\/v1$/, '')}/openapi.json`);
  writeFileSync(new URL('openapi.json', BUILD), await document.text());
  for (const file of readdirSync(HERE).filter((name) => /\.(ts|py)$|^tsconfig/.test(name))) {
    copyFileSync(new URL(file, HERE), new URL(file, BUILD));
  }
  const guide = readFileSync(new URL('docs/guides/generated-clients.md', PROJECT_ROOT), 'utf8');
  for (const name of ['int64-as-string.mjs', 'exact-fetch.ts']) {
    const [, code] = new RegExp(`^\`\`\`\\w+ ${name}\n(.*?)^\`\`\``, 'ms').exec(guide);
    writeFileSync(new URL(name, BUILD), code);
  }
}

function generateForPython() {
  const input = ['--path', 'openapi.json', '--meta', 'none', '--output-path', 'store'];
  run('openapi-python-client', ['generate', ...input]);
}

async function generateForTypeScript() {
  process.chdir(fileURLToPath(BUILD));
  run(process.execPath, ['int64-as-string.mjs']);
  const input = './openapi.json';
  run('npx', ['openapi-typescript', input, '-o', 'openapi-typescript/store.ts']);
  const mutator = { path: './orval-fetch.ts', name: 'send', extension: '.js' };
  const output = { target: './orval/store.ts', client: 'fetch', override: { mutator } };
  await orval.generate({ input, output });
  const sdk = { name: '@hey-api/sdk', validator: { response: 'zod' } };
  await createClient({
    input,
    output: { path: './hey-api', module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch', sdk, 'zod'],
  });
  run('npx', ['tsc', '-p', '.']);
}

const { base, key, stop } =
  process.env.BASE === undefined
    ? await startService()
    : { base: process.env.BASE, key: process.env.KEY, stop: async () => {} };
try {
  await prepare(base);
  const programs = ['openapi-typescript.js', 'orval.js', 'hey-api.js'];
  if (spawnSync('openapi-python-client', ['--version']).error === undefined) {
    generateForPython();
    programs.push('openapi-python-client.py');
  } else {
    console.log('openapi-python-client is skipped: it is not installed.');
  }
  await generateForTypeScript();
  for (const program of programs) {
    const printed = run(program.endsWith('.py') ? 'python3' : process.execPath, [program], {
      env: { ...process.env, BASE: base, KEY: key },
      stdio: ['ignore', 'pipe', 'inherit'],
      encoding: 'utf8',
    });
    console.log(`${program} prints:\n${printed}`);
    if (printed !== EXPECTED) {
      throw new Error(`${program} must print:\n${EXPECTED}`);
    }
  }
} finally {
  await stop();
}
