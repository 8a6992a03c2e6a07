import { Command } from 'commander';
import { KEY_PREFIX } from '../api-key.js';
import { sqlState, unavailableCause } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { addCommands } from './commands.js';
import { print } from './print.js';

const HELP = `
Without a command, animal-store runs serve. .env.example documents the configuration: the environment and .env.`;

const EXIT_CODES = `
Exit codes:
  0  done
  1  failed, or the arguments are wrong: standard error says why
  2  migrate revert without --yes, which changes nothing
  129  SIGHUP ended serve, as when a terminal closes`;

/** Runs the program. On failure, prints the reason on standard error and ends the process with exit code 1. */
export async function animalStore(args: string[]): Promise<void> {
  const program = new Command('animal-store')
    .description('The Animal Store Service, and the commands of its operators and DBAs.')
    .configureOutput({
      writeOut: (text) => print(text.trimEnd()),
      outputError: (text, write) => write(withoutKeys(text)),
    })
    .showHelpAfterError()
    .addHelpText('after', HELP)
    .addHelpText('afterAll', EXIT_CODES);
  addCommands(program);
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    const reason = explain(error);
    console.error(reason);
    if (args[0] === 'serve') {
      const { createLogger, flushStandardOutput } = await import('../logging/logger.js');
      const { NODE_ENV, LOG_LEVEL } = process.env;
      if (NODE_ENV === 'production' && LOG_LEVEL !== 'silent') {
        createLogger('fatal').fatal({ reason }, 'stopped');
      }
      // At the exit, lines that cannot be written would be tried forever.
      await flushStandardOutput();
    }
    // Ends at once: a connection that the server does not close would otherwise keep the process alive for a minute.
    process.exit(1);
  }
}

/** Masks API keys in Commander's messages. Commander quotes an invalid argument, and that may be an API key. */
const withoutKeys = (text: string) => text.replaceAll(new RegExp(`${KEY_PREFIX}[\\w-]*`, 'g'), '…');

/** What to do if the service cannot listen, by the code of the error. With other codes, HOST is wrong. */
const ADVICE: Record<string, string> = {
  EADDRINUSE: 'Set PORT to one that is free, or to 0 for any: PORT=0 npm start',
  EACCES: 'A port below 1024 needs root or CAP_NET_BIND_SERVICE. Set PORT to a higher one.',
};

function explain(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  if (error instanceof OperatorError) {
    return error.message;
  }
  if (sqlState(error) !== undefined) {
    return `PostgreSQL reports: ${error.message}`;
  }
  const { syscall = '', code = '' } = error as NodeJS.ErrnoException;
  if (/^(listen|getaddrinfo)$/.test(syscall)) {
    return `${error.message}. ${ADVICE[code] ?? 'Set HOST to an address of this machine, or to *.'}`;
  }
  if (unavailableCause(error) !== undefined) {
    return `The connection to the database was lost: ${error.message}`;
  }
  return error.stack ?? error.message;
}
