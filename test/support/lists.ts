import type { List } from '../../src/listing/list.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { PETS } from '../../src/pets/pets.service.js';
import type { TestService } from './service.js';

type Ids = readonly (number | string | bigint)[];

const parametersOf = ({ filters }: List) => [
  'limit',
  ...filters.map(({ property }) => property),
  'cursor',
];

/** Each list: its operation, path and parameters, and what inserts an item with each of the ids, in any order. */
export const LISTS = [
  {
    operation: 'listPets',
    path: '/v1/pets',
    parameters: parametersOf(PETS),
    insert: (service: TestService, ids: Ids) =>
      service.query(
        `insert into pets (id, name, category_id) select id, 'pet ' || id, id from unnest($1::bigint[]) as id order by random()`,
        [ids],
      ),
  },
  {
    operation: 'listOrders',
    path: '/v1/store/orders',
    parameters: parametersOf(ORDERS),
    insert: (service: TestService, ids: Ids) =>
      service.query(
        `with pet as (insert into pets (id, name, category_id) values (1, 'Rex', 1) on conflict do nothing)
         insert into orders (id, pet_id) overriding system value
         select id, 1 from unnest($1::bigint[]) as id order by random()`,
        [ids],
      ),
  },
] as const;

/** @returns the ids of a page, exactly. */
export const idsOf = (text: string) =>
  [...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => BigInt(id!));
