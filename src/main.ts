#!/usr/bin/env -S node --max-semi-space-size=32
import { animalStore } from './cli/animal-store.js';

const args = process.argv.slice(2);
// Without a command it serves: NestJS's own `nest start` gives none.
await animalStore(args.length === 0 ? ['serve'] : args);
