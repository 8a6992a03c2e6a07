import type { OpenAPIV3_1 } from 'openapi-types';
import { DEFAULT_LIMIT } from './list-query.js';

/** `limit` of a list in the OpenAPI document (interface, part 8). */
export const LIMIT_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'limit',
  in: 'query',
  description: 'The maximum number of items in the page. In plain digits, sent once.',
  schema: { type: 'integer', minimum: 1, maximum: 100, default: DEFAULT_LIMIT },
};

export const CURSOR_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'cursor',
  in: 'query',
  description: 'Where the page begins: from the `Link` of the previous page.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{16}$' },
};

/** The headers of a page. */
export const PAGE_HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
  Link: {
    description:
      'If more items follow: the next page, with the same `limit` and filter, as `<…>; rel="next"` (RFC 8288). The last page has no `Link`.',
    schema: { type: 'string', pattern: '^<[^<>]+>; rel="next"$' },
    example: '</v1/…?limit=20&cursor=AAAAAAAAABQ3sXhL>; rel="next"',
  },
};
