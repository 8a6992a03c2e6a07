import { areInstalled } from './program.js';

/** Whether it is there; if not, a warning says so. In CI, which installs it (.ci/run), that is an error. */
function isThere(name: string, found: unknown): boolean {
  if (!found && process.env['CI']) {
    throw new Error(`not installed: ${name}`);
  }
  if (!found) {
    console.warn(`Tests are skipped: this machine has no ${name}.`);
  }
  return Boolean(found);
}

/** For tests that need what a developer's machine may lack. They are skipped there, and fail in CI. */
export const describeWith = (name: string, found: unknown = areInstalled(name)) =>
  isThere(name, found) ? describe : describe.skip;
/** The same, for one test. */
export const itWith = (name: string, found: unknown = areInstalled(name)) =>
  isThere(name, found) ? it : it.skip;
