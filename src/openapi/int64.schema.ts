import type { OpenAPIV3 } from 'openapi-types';
import { INT64_MAX, INT64_MIN } from '../int64.js';

/** Has explicit bounds, because tools assume others. The bounds are bigints, which `openapi-types` does not allow. */
export const INT64 = {
  type: 'integer',
  format: 'int64',
  minimum: INT64_MIN,
  maximum: INT64_MAX,
} as unknown as OpenAPIV3.NonArraySchemaObject;
