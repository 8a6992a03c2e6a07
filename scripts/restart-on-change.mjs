#!/usr/bin/env node
// `npm run start:dev` runs the service with this in place of Node: it restarts the service when a file changes that is read
// at start and that the compiler does not watch. If the service failed, the next change starts it again.
import { spawn } from 'node:child_process';
import { readFileSync, statSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** @type {import('node:child_process').ChildProcess | undefined} */
let service;
let isRestarting = false;
let isStopping = false;

function start() {
  service = spawn(process.execPath, process.argv.slice(2), {
    stdio: 'inherit',
    env: { DRAIN_SECONDS: '0', ...process.env },
  }).once('exit', (code) => {
    service = undefined;
    if (isStopping) {
      process.exit(code ?? 0);
    }
    if (isRestarting) {
      isRestarting = false;
      start();
    }
  });
}

function restart() {
  if (service === undefined) {
    start();
  } else if (!isRestarting) {
    isRestarting = true;
    service.kill();
  }
}

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => {
    isStopping = true;
    if (service === undefined) {
      process.exit();
    }
    service.kill(signal);
  });
}
// Also after an error, such as that of a file that cannot be watched.
process.on('exit', () => service?.kill());
// The compiler watches what `dist` is made of.
const files = JSON.parse(readFileSync('package.json', 'utf8')).files.filter(
  (/** @type {string} */ file) => file !== 'dist',
);
for (const file of ['.env', ...files]) {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) {
    watch(file, restart);
  } else {
    // Its folder: editors replace the file when they save it.
    watch(dirname(file), (_event, name) => name === basename(file) && restart());
  }
}
start();
