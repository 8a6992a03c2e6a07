import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { DOCUMENTS } from '../support/documents.js';

const read = (file: string) => readFileSync(join(PROJECT_ROOT, file), 'utf8');
const { scripts }: { scripts: Record<string, string> } = JSON.parse(read('package.json'));

function help(command: string): string {
  const args = [join(PROJECT_ROOT, 'dist/src/main.js'), ...command.split(' '), '--help'];
  return execFileSync(process.execPath, args.filter(Boolean), { encoding: 'utf8' });
}

/** The names that the program, or a group of its commands, lists in its help. */
const namesIn = (group: string) =>
  [
    ...help(group)
      .split('\nCommands:\n')[1]!
      .matchAll(/^ {2}([a-z]+) /gm),
  ]
    .map(([, name]) => name!)
    .filter((name) => name !== 'help');

/** What of the program an npm script runs: `keys` for `keys`. */
const commandOf = (script: string) =>
  scripts[script]!.replace(/^.* dist\/src\/main\.js ?/, '') || 'serve';

describe('the commands that the documents name', () => {
  const groups = ['migrate', 'keys'];
  const commands = namesIn('').flatMap((name) =>
    groups.includes(name) ? namesIn(name).map((member) => `${name} ${member}`) : [name],
  );
  const rows = [
    ...read('docs/operations.md').matchAll(
      /^\| `animal-store ([a-z ]+)` +\| `npm run ([\w:-]+)(?: -- ([a-z ]+))?`/gm,
    ),
  ].map(([, command, script, rest]) => ({ command: command!, script: script!, rest }));

  it('are all, and only, those that the program has, in docs/operations.md', () => {
    expect(rows.map(({ command }) => command).toSorted()).toEqual(commands.toSorted());
  });

  it('are what their npm scripts run', () => {
    for (const { command, script, rest } of rows) {
      const whole = script === 'animal-store' ? rest : [commandOf(script), rest].join(' ').trim();
      expect(whole).toBe(command);
    }
  });

  /** With what follows them up to the end of the line, or of the code. */
  const direct = `animal-store (${commands.join('|')})\\b([^\`|#\\n]*)`;
  const byScript = 'npm run (?:-s )?(keys|seed|migration:[a-z]+) --([^`|#\\n]*)';
  const uses = DOCUMENTS.flatMap((file) => {
    const text = read(file);
    return [
      ...[...text.matchAll(new RegExp(direct, 'g'))].map(([, command, rest]) => [command, rest]),
      ...[...text.matchAll(new RegExp(byScript, 'g'))].map(([, script, rest]) => {
        const [, member = '', options] = /^ *([a-z]*)(.*)$/.exec(rest!)!;
        return [`${commandOf(script!)} ${member}`.trim(), options];
      }),
    ] as [command: string, rest: string][];
  });
  const options = uses.flatMap(([command, rest]) =>
    [...rest.matchAll(/(?<=[ [])--[a-z][a-z-]*/g)].map(([option]) => [command, option] as const),
  );

  it('have the options that they are named with', () => {
    expect(uses.map(([command]) => command).filter((name) => !commands.includes(name))).toEqual([]);
    expect(options.length).toBeGreaterThan(5);
    const texts = new Map([...new Set(options.map(([name]) => name))].map((n) => [n, help(n)]));
    expect(options.filter(([name, option]) => !texts.get(name)!.includes(` ${option}`))).toEqual(
      [],
    );
  });
});
