import type { OpenAPIV3_1 } from 'openapi-types';
import { GET_PET_DEPRECATION } from '../deprecation/deprecation.js';
import { CURSOR_PARAMETER, LIMIT_PARAMETER, PAGE_HEADERS } from '../listing/list.openapi.js';
import { INT64 } from '../openapi/int64.schema.js';
import type { OperationDescription } from '../openapi/operation.decorator.js';
import { NewPet } from './new-pet.dto.js';
import { NAME_LENGTH, PET_STATUSES } from './pet.entity.js';

/** The white space characters of Unicode. They are listed, because `\s` differs between languages. */
const WHITE_SPACE =
  '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

/** At least one character is not white space, and none is U+0000. */
const NAME_PATTERN = `^[^\\u0000]*[^\\u0000${WHITE_SPACE}][^\\u0000]*$`;

const NAME: OpenAPIV3_1.SchemaObject = {
  type: 'string',
  description:
    "The animal's name, kept exactly as sent. Not only white space, without U+0000 and lone surrogates.",
  minLength: 1,
  maxLength: NAME_LENGTH,
  pattern: NAME_PATTERN,
};

const CATEGORY_ID: OpenAPIV3_1.SchemaObject = {
  ...INT64,
  description: 'Identifier of the category the animal belongs to.',
};

const STATUS = { $ref: '#/components/schemas/PetStatus' };

const IDEMPOTENCY_KEY_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    '1 to 255 visible ASCII characters, bare or as a quoted string. If the request is sent again within 24 hours with the same body, it creates nothing and gets the same animal.',
  // 512 is the length of a quoted string of 255 characters, each escaped with a backslash.
  schema: { type: 'string', minLength: 1, maxLength: 512, pattern: '^[\\x21-\\x7e]+$' },
  example: 'c4a2e7c0-9d1f-4b0a-8f52-6d1f0e1b2a3c',
};

/** PetStatus, NewPet and Pet (interface, part 2). */
const SCHEMAS: Record<string, OpenAPIV3_1.SchemaObject> = {
  PetStatus: {
    type: 'string',
    description: 'Whether the animal is available.',
    enum: [...PET_STATUSES],
  },
  NewPet: {
    type: 'object',
    description: 'An animal to add. Other fields are ignored.',
    required: ['name', 'categoryId'],
    properties: {
      name: NAME,
      categoryId: CATEGORY_ID,
      // Without the keyword `default`, because generators of types would then make the field required.
      status: { ...STATUS, description: `By default \`${new NewPet().status}\`.` },
    },
  },
  Pet: {
    type: 'object',
    description: 'An animal.',
    required: ['id', 'name', 'categoryId', 'status'],
    properties: {
      id: { ...INT64, description: 'Unique identifier, assigned by the service.' },
      name: NAME,
      categoryId: CATEGORY_ID,
      status: STATUS,
    },
  },
  Pets: {
    type: 'array',
    description: 'Animals in ascending order of `id`.',
    items: { $ref: '#/components/schemas/Pet' },
  },
};

const REX = { name: 'Rex', categoryId: 7, status: 'available' };

const PETS = {
  tag: { name: 'Pets', description: 'The animals of the store.' },
  stability: 'stable',
  schemas: SCHEMAS,
} as const;

const json = (schema: string, example: unknown): OpenAPIV3_1.ResponseObject['content'] => ({
  'application/json': { schema: { $ref: `#/components/schemas/${schema}` }, example },
});

export const LIST_PETS: OperationDescription = {
  ...PETS,
  summary: 'List animals',
  description:
    'A page of animals in ascending order of `id`. To get all animals, follow `Link` with `rel="next"` until a page has none.',
  guide: { title: 'Pagination', path: '/docs/guides/pagination' },
  parameters: [
    LIMIT_PARAMETER,
    { name: 'status', in: 'query', description: 'Only animals of this status.', schema: STATUS },
    CURSOR_PARAMETER,
  ],
  success: {
    description: 'The page.',
    headers: PAGE_HEADERS,
    content: json('Pets', [{ id: 1, ...REX }]),
  },
};

export const CREATE_PET: OperationDescription = {
  ...PETS,
  summary: 'Add an animal',
  description:
    'Adds an animal under a new `id`. With an `Idempotency-Key`, the request can safely be sent again.',
  guide: { title: 'Retries and idempotency', path: '/docs/guides/retries' },
  parameters: [IDEMPOTENCY_KEY_PARAMETER],
  requestBody: { required: true, content: json('NewPet', REX)! },
  success: {
    description:
      'The animal was added, by this request or by an earlier one with its `Idempotency-Key`.',
    headers: {
      Location: {
        description: "The animal's address.",
        required: true,
        schema: { type: 'string', format: 'uri-reference' },
        example: '/v1/pets/1',
      },
      'Idempotent-Replayed': {
        description: 'Present if an earlier request with this `Idempotency-Key` added the animal.',
        schema: { type: 'string', enum: ['true'] },
      },
    },
    content: json('Pet', { id: 1, ...REX }),
  },
  errors: [
    'invalid_json',
    'invalid_request',
    'payload_too_large',
    'unsupported_media_type',
    'idempotency_key_in_use',
    'idempotency_key_reused',
  ],
};

export const GET_PET: OperationDescription = {
  ...PETS,
  summary: 'Fetch an animal',
  description: 'One animal by its `id`. Use listPets with its `status` filter instead.',
  guide: { title: 'Deprecation of getPet', path: GET_PET_DEPRECATION.guide },
  parameters: [
    {
      name: 'petId',
      in: 'path',
      required: true,
      description:
        "The animal's `id` in plain decimal. Any other text gets 404, because it identifies no animal.",
      schema: INT64,
      example: 1,
    },
  ],
  success: { description: 'The animal.', content: json('Pet', { id: 1, ...REX }) },
  errors: ['pet_not_found'],
};
