import type { DataSource } from 'typeorm';
import { OperatorError } from '../errors/operator-error.js';
import type { Engine } from './engine.js';
import { DATABASE_LIMITS } from './limits.js';

const SERVING = {
  // PostgreSQL would compile each batch, which takes 100 ms for a statement of 1 ms.
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  // The one plan of a statement must not be the scan that fits a table while it is small.
  enable_seqscan: 'off',
  // With a stricter level, a statement for many requests could fail because of one of them.
  default_transaction_isolation: 'read committed',
  statement_timeout: String(DATABASE_LIMITS.statement),
  // If a policy could hide rows, PostgreSQL raises an error.
  row_security: 'off',
};

const CITUS = {
  // Citus has no generic plan for a range or an array of the distribution column.
  plan_cache_mode: 'auto',
  // What a transaction sets, it also sets on the workers.
  'citus.propagate_set_commands': 'local',
};

/**
 * The settings that sessions must have to serve requests. Behind a pooler, nothing is prepared, so no plan is set, and
 * only readiness looks for policies.
 */
export function requiredSettings(engine?: Engine, pooler?: string): Record<string, string> {
  if (pooler === undefined) {
    return engine === 'citus' ? { ...SERVING, ...CITUS } : SERVING;
  }
  const { plan_cache_mode: _, enable_seqscan: __, row_security: ___, ...always } = SERVING;
  return always;
}

/** @throws OperatorError if sessions lack settings: through a pooler, the service cannot change them. */
export async function requireSettings(dataSource: DataSource, engine: Engine, pooler?: string) {
  const required = requiredSettings(engine, pooler);
  const found = await dataSource.query<{ name: string; setting: string; role: string }[]>(
    `select name, setting, quote_ident(session_user) as role from pg_settings where name = any($1)`,
    [Object.keys(required)],
  );
  const remedy = found
    .filter(({ name, setting }) => setting !== required[name])
    .map(({ name, role }) => `alter role ${role} set ${name} = '${required[name]}';`);
  if (remedy.length > 0) {
    throw new OperatorError(
      'Through a pooler, the settings of sessions must be those of the role of DATABASE_URL. ' +
        `Run this, and have the pooler connect again:\n${remedy.join('\n')}`,
    );
  }
}
