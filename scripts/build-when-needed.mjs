// Builds the service before a command that runs the build, unless the build is newer than what it is made of. A build that
// failed has written nothing (noEmitOnError). In the container image there is only the build, and nothing to do.
// Refuses what the service cannot run on, and dependencies of another version of the project.
import { spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = ['src', 'migrations', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json'];

const { engines } = readJson('package.json');
if (process.platform === 'win32') {
  refuse('The service does not run on Windows. Use Docker Compose (docs/compose.md), or WSL.');
}
if (!engines.node.split(' || ').some(isMet)) {
  refuse(`This is Node ${process.versions.node}; the service needs ${engines.node}.`);
}
if (!isInstalled()) {
  refuse('The packages of package-lock.json are not installed. Install them with npm: npm ci');
}

if (existsSync(join(root, 'src')) && isStale()) {
  const nest = join(root, 'node_modules/@nestjs/cli/bin/nest.js');
  if (!existsSync(nest)) {
    const cause =
      'NODE_ENV is production, so npm ci left out the compiler. For development, unset NODE_ENV.';
    refuse(
      `There is no build of these sources. ${process.env.NODE_ENV === 'production' ? `${cause} ` : ''}To build them: npm ci --include=dev && npm run build`,
    );
  }
  requireWritable(existsSync(join(root, 'dist')) ? join(root, 'dist') : root);
  // Standard output belongs to the command that follows.
  console.error('Building…');
  const { status, error } = spawnSync(process.execPath, [nest, 'build'], {
    cwd: root,
    stdio: ['ignore', process.stderr, process.stderr],
  });
  if (status !== 0) {
    refuse(`The build failed${error ? `: ${error.message}` : ''}.`);
  }
  // The service would apply a migration whose source was renamed or deleted.
  for (const file of filesUnder(join(root, 'dist/migrations')).slice(1)) {
    const source = basename(file).replace(/\.(d\.ts|js|js\.map)$/, '.ts');
    if (!existsSync(join(root, 'migrations', source))) {
      rmSync(file);
    }
  }
}

/** @param range as `package.json` has them: `^20.19.0` or `>=24.11.0`. */
function isMet(range) {
  const [, operator, leastMajor, leastMinor] = /^(\^|>=)(\d+)\.(\d+)\.0$/.exec(range) ?? [];
  const [major, minor] = process.versions.node.split('.').map(Number);
  const isLater = operator === '>=' && major > Number(leastMajor);
  return isLater || (major === Number(leastMajor) && minor >= Number(leastMinor));
}

/**
 * Whether npm installed the packages of the lock file, which may have been changed since, as by `git pull`. Other package
 * managers, which write no `node_modules/.package-lock.json`, install other versions.
 */
function isInstalled() {
  const [locked, installed] = ['package-lock.json', 'node_modules/.package-lock.json'];
  if (timeOf(locked) <= timeOf(installed)) {
    return true;
  }
  const found = timeOf(installed) === 0 ? {} : readJson(installed).packages;
  const isDevelopment = existsSync(join(root, 'node_modules/@nestjs/cli'));
  return Object.entries(readJson(locked).packages).every(
    ([path, { version, dev, optional, devOptional }]) => {
      const mayBeMissing = path === '' || optional || ((dev || devOptional) && !isDevelopment);
      return path in found ? found[path].version === version : mayBeMissing;
    },
  );
}

function isStale() {
  const built = timeOf('dist/src/main.js');
  return sources
    .flatMap((source) => filesUnder(join(root, source)))
    .filter((file) => !file.endsWith('.spec.ts'))
    .some((file) => statSync(file).mtimeMs > built);
}

function requireWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    const { uid } = statSync(folder);
    refuse(
      code === 'EROFS'
        ? `${folder} is on a read-only file system: copy the project to one where it can write.`
        : `${folder} belongs to the user with the id ${uid}, as after a start with sudo: sudo chown -R "$(id -u)" '${root}'`,
    );
  }
}

/** @returns when a file was changed, in milliseconds; 0 if there is none. */
function timeOf(file) {
  return statSync(join(root, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function readJson(file) {
  return JSON.parse(readFileSync(join(root, file), 'utf8'));
}

function filesUnder(path) {
  return statSync(path).isDirectory()
    ? [path, ...readdirSync(path).flatMap((name) => filesUnder(join(path, name)))]
    : [path];
}

function refuse(reason) {
  console.error(reason);
  process.exit(1);
}
