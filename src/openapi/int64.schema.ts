import type { OpenAPIV3 } from 'openapi-types';
import { INT64_MAX, INT64_MIN } from '../int64.js';

/** The whole range is written out: tools assume other bounds. Bounds are bigints, which OpenAPI's types do not have. */
export const INT64 = {
  type: 'integer',
  format: 'int64',
  minimum: INT64_MIN,
  maximum: INT64_MAX,
} as unknown as OpenAPIV3.NonArraySchemaObject;
