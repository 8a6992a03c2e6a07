#!/usr/bin/env -S node --max-semi-space-size=32
import { animalStore } from './cli/animal-store.js';

const args = process.argv.slice(2);
// Without a command, the program serves, because `nest start` passes no command.
await animalStore(args.length === 0 ? ['serve'] : args);
