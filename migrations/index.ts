import { CreatePets1795046400000 } from './1795046400000-create-pets.js';
import { CreateApiKeys1795046460000 } from './1795046460000-create-api-keys.js';
import { CreateIdempotencyKeys1795132800000 } from './1795132800000-create-idempotency-keys.js';
import { CreateOrders1795222800000 } from './1795222800000-create-orders.js';
import { DistributeTables1795226400000 } from './1795226400000-distribute-tables.js';
import { DropApiKeyOfIdempotencyKeys1795312800000 } from './1795312800000-drop-api-key-of-idempotency-keys.js';
import type { Migration } from './migration.js';

/** The class of every migration, oldest first. */
export const migrations: readonly MigrationClass[] = [
  CreatePets1795046400000,
  CreateApiKeys1795046460000,
  CreateIdempotencyKeys1795132800000,
  CreateOrders1795222800000,
  DistributeTables1795226400000,
  DropApiKeyOfIdempotencyKeys1795312800000,
];

interface MigrationClass {
  /** The migration's `name`. */
  readonly name: string;
  new (): Migration;
}

/** Their names, as in the table `migrations`. */
export const MIGRATION_NAMES = migrations.map(({ name }) => name);
