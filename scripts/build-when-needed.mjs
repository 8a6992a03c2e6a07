// Builds the service before a command that runs the build, unless the build is newer than what it is made of.
// In the container image there is only the build, and nothing to do. Refuses a version of Node that lacks what is needed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = ['src', 'migrations', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json'];

const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
if (!engines.node.split(' || ').some(isMet)) {
  console.error(`This is Node ${process.versions.node}; the service needs ${engines.node}.`);
  process.exit(1);
}

if (existsSync(join(root, 'src'))) {
  const built = statSync(join(root, 'dist/src/main.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isStale = sources
    .flatMap((source) => filesUnder(join(root, source)))
    .filter((file) => !file.endsWith('.spec.ts'))
    .some((file) => statSync(file).mtimeMs > built);
  if (isStale && !existsSync(join(root, 'node_modules/@nestjs/cli'))) {
    console.error('There is no build of these sources: npm ci --include=dev && npm run build');
    process.exit(1);
  }
  if (isStale) {
    // Standard output belongs to the command that follows.
    console.error('Building…');
    const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
      cwd: root,
      stdio: ['ignore', process.stderr, process.stderr],
    });
    process.exitCode = status ?? 1;
    // The service would apply a migration whose source was renamed or deleted.
    const built = status === 0 ? filesUnder(join(root, 'dist/migrations')).slice(1) : [];
    for (const file of built) {
      const source = basename(file).replace(/\.(d\.ts|js|js\.map)$/, '.ts');
      if (!existsSync(join(root, 'migrations', source))) {
        rmSync(file);
      }
    }
  }
}

/** @param range as `package.json` has them: `^20.19.0`. */
function isMet(range) {
  const [, leastMajor, leastMinor] = (/^\^(\d+)\.(\d+)/.exec(range) ?? []).map(Number);
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major === leastMajor && minor >= leastMinor;
}

function filesUnder(path) {
  return statSync(path).isDirectory()
    ? [path, ...readdirSync(path).flatMap((name) => filesUnder(join(path, name)))]
    : [path];
}
