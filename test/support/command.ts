import { Console } from 'node:console';
import fs from 'node:fs';
import { animalStore } from '../../src/cli/animal-store.js';
import type { Outcome } from './program.js';

/**
 * Runs a command of `animal-store` in this process: a process of its own takes a second more. Not for what needs one:
 * `serve`, the embedded PostgreSQL, a signal, a terminal or a full disk.
 *
 * @param command with its arguments: a list if one of them has a space.
 */
export async function runHere(
  command: string | readonly string[],
  variables: Record<string, string> = {},
): Promise<Outcome> {
  const { env, exitCode } = process;
  const { console } = globalThis;
  const written = { stdout: '', stderr: '' };
  const { writeSync } = fs;
  let code: number | undefined;
  const spies = [
    // Commander ends the process first, and then animalStore does.
    jest.spyOn(process, 'exit').mockImplementation((status) => {
      code ??= Number(status);
      throw new Error(`exit code ${code}`);
    }),
    jest.spyOn(fs, 'writeSync').mockImplementation(((fd: number, bytes: Buffer, ...rest: []) => {
      if (fd !== 1) {
        return writeSync(fd, bytes, ...rest);
      }
      written.stdout += code === undefined ? String(bytes) : '';
      return bytes.length;
    }) as typeof writeSync),
    ...(['stdout', 'stderr'] as const).map((stream) =>
      jest.spyOn(process[stream], 'write').mockImplementation((text) => {
        written[stream] += code === undefined ? String(text) : '';
        return true;
      }),
    ),
  ];
  Object.assign(process, { env: { ...variables }, exitCode: undefined });
  // Jest's own keeps what it is given.
  globalThis.console = new Console(process.stdout, process.stderr);
  try {
    await animalStore(typeof command === 'string' ? command.split(' ') : [...command]);
  } catch (error) {
    if (code === undefined) {
      throw error;
    }
  } finally {
    code ??= Number(process.exitCode ?? 0);
    Object.assign(process, { env, exitCode });
    globalThis.console = console;
    spies.forEach((spy) => spy.mockRestore());
  }
  return { code, ...written };
}
