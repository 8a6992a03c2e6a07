// Builds the service before a command that runs the build, unless the build is newer than what it is made of.
// In the container image there is only the build, and nothing to do.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = ['src', 'migrations', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json'];

if (existsSync(join(root, 'src'))) {
  const built = statSync(join(root, 'dist/src/main.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isStale = sources
    .flatMap((source) => filesUnder(join(root, source)))
    .some((file) => statSync(file).mtimeMs > built);
  if (isStale && !existsSync(join(root, 'node_modules/@nestjs/cli'))) {
    console.error('There is no build of these sources: npm ci --include=dev && npm run build');
    process.exit(1);
  }
  if (isStale) {
    // Standard output belongs to the command that follows.
    execFileSync('npm', ['run', '--silent', 'build'], {
      cwd: root,
      stdio: ['ignore', process.stderr, process.stderr],
    });
  }
}

function filesUnder(path) {
  return statSync(path).isDirectory()
    ? [path, ...readdirSync(path).flatMap((name) => filesUnder(join(path, name)))]
    : [path];
}
