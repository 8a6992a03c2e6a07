import { CURSOR_PARAMETER, LIMIT_PARAMETER, PAGE_HEADERS } from '../listing/list.openapi.js';
import { INT64 } from '../openapi/int64.schema.js';
import type { OperationDescription } from '../openapi/operation.decorator.js';

export const LIST_ORDERS: OperationDescription = {
  tag: { name: 'Store', description: "The store's orders." },
  summary: 'List orders',
  description:
    'A page of orders in ascending order of `id`. Experimental: all of it may change without notice.',
  stability: 'experimental',
  hasTryItPanel: false,
  parameters: [LIMIT_PARAMETER, CURSOR_PARAMETER],
  success: {
    description: 'The page.',
    headers: PAGE_HEADERS,
    content: {
      'application/json': {
        schema: { type: 'array', items: { $ref: '#/components/schemas/Order' } },
        example: [{ id: 1, petId: 1, status: 'placed', placedAt: '2026-11-21T09:30:00.000000Z' }],
      },
    },
  },
  schemas: {
    Order: {
      type: 'object',
      description: 'An order of an animal.',
      required: ['id', 'petId', 'status', 'placedAt'],
      properties: {
        id: { ...INT64, description: 'Unique identifier, assigned by the database.' },
        petId: { ...INT64, description: 'The `id` of the animal that was ordered.' },
        status: { type: 'string', enum: ['placed', 'approved', 'delivered'] },
        placedAt: {
          type: 'string',
          format: 'date-time',
          pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z$',
          description:
            'When the order was placed, in UTC. The seconds always have six decimal digits.',
        },
      },
    },
  },
};
