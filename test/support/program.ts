import { type ChildProcess, spawn, spawnSync, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';

/** Where Debian has programs of administrators, too. */
export const PATH = `${process.env['PATH']}:/usr/sbin`;

/** Whether programs are installed. */
export const areInstalled = (...programs: string[]): boolean =>
  programs.every((program) => {
    const { error, status } = spawnSync(program, ['--version'], { env: { PATH } });
    // As of a library that is missing, 127.
    return error === undefined && status !== 127;
  });

export interface Ids {
  uid?: number;
  gid?: number;
}

export interface Outcome {
  /** `null` if a signal ended it. */
  code: number | null;
  stdout: string;
  stderr: string;
}

interface Options {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  ids?: Ids;
  isQuiet?: boolean;
}

/** Programs that run. In jest, whose `process` has no `exit`, what removes temporary folders ends those that are left. */
const running = new Set<Program>();
process.on('exit', () => running.forEach((program) => program.signalFamily('SIGKILL')));

/** A program that runs, and what it has written so far. */
export class Program {
  readonly outcome: Promise<Outcome>;
  stdout = '';
  stderr = '';

  private constructor(private readonly child: ChildProcess) {
    child.stdout?.setEncoding('utf8').on('data', (text) => (this.stdout += text));
    child.stderr!.setEncoding('utf8').on('data', (text) => (this.stderr += text));
    running.add(this);
    this.outcome = once(child, 'close').then(([code]) => {
      running.delete(this);
      return { code, stdout: this.stdout, stderr: this.stderr };
    });
  }

  /** @param options `isQuiet`: its standard output is discarded. */
  static start(command: string, args: string[], options: Options = {}): Program {
    const { isQuiet = false, ids = {}, ...others } = options;
    const stdio: StdioOptions = ['pipe', isQuiet ? 'ignore' : 'pipe', 'pipe'];
    // A group of its own: a Ctrl-C of the tests does not reach it, and one for it reaches what it started.
    return new Program(spawn(command, args, { ...others, ...ids, stdio, detached: true }));
  }

  get processId(): number {
    return this.child.pid!;
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Waits until it has written what `pattern` matches. */
  async says(pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<RegExpExecArray> {
    const ended = this.outcome.then(() => 'ended');
    for (;;) {
      const match = pattern.exec(this[stream]);
      if (match !== null) {
        return match;
      }
      if ((await Promise.race([once(this.child[stream]!, 'data'), ended])) === 'ended') {
        throw new Error(`ended without saying ${pattern}:\n${this.stdout}${this.stderr}`);
      }
    }
  }

  /** Types on the terminal that it has. */
  type(text: string): void {
    this.child.stdin!.write(text);
  }

  send(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Sends a signal and waits for the end. */
  async end(signal: NodeJS.Signals): Promise<Outcome> {
    this.send(signal);
    return this.outcome;
  }

  /** Sends a signal to the program and to its group, as a terminal does on Ctrl-C. */
  signalGroup(signal: NodeJS.Signals): void {
    sendTo(-this.processId, signal);
  }

  /** Sends a signal to the program and to its children, of whatever group: PostgreSQL's have groups of their own. */
  signalFamily(signal: NodeJS.Signals): void {
    const pgrep = spawnSync('pgrep', ['-P', String(this.processId)], { encoding: 'utf8' });
    const children = pgrep.stdout.split('\n').filter(Boolean).map(Number);
    [this.processId, ...children].forEach((pid) => sendTo(pid, signal));
  }
}

function sendTo(processId: number, signal: NodeJS.Signals): void {
  try {
    process.kill(processId, signal);
  } catch {
    // It has ended.
  }
}
