import { ApiKey } from './auth/api-key.entity.js';
import { Order } from './orders/order.entity.js';
import { IdempotencyKey } from './pets/idempotency-key.entity.js';
import { Pet } from './pets/pet.entity.js';

/** The entities of all tables. */
export const ENTITIES = [Pet, IdempotencyKey, ApiKey, Order];
