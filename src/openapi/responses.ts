import type { OpenAPIV3_1 } from 'openapi-types';
import { ERRORS, type ErrorCode, errorBody } from '../errors/errors.js';
import { WELL_FORMED_ID } from '../http/request-id.js';

export type Headers = Record<string, OpenAPIV3_1.HeaderObject | OpenAPIV3_1.ReferenceObject>;

/** Error (interface, part 2). */
export const ERROR_SCHEMA: OpenAPIV3_1.SchemaObject = {
  type: 'object',
  description: 'The body of every error response.',
  required: ['code', 'message', 'status'],
  properties: {
    code: { type: 'string', description: 'Stable and never reused. A program branches on it.' },
    message: { type: 'string', description: 'For a person. Names every error that was found.' },
    status: { type: 'integer', description: 'The HTTP status code.' },
  },
};

/** The headers of every response. */
export const COMMON_HEADERS: Record<string, OpenAPIV3_1.HeaderObject> = {
  'X-Request-Id': {
    description: "The request's `X-Request-Id` if that was accepted, otherwise a new id.",
    required: true,
    schema: { type: 'string', pattern: WELL_FORMED_ID.source },
  },
  'Cache-Control': {
    description: 'Responses must not be stored.',
    required: true,
    schema: { type: 'string', enum: ['no-store'] },
  },
};

/** Errors that any operation can respond with, whatever its handler does. */
const COMMON_ERRORS: readonly ErrorCode[] = [
  'invalid_request',
  'missing_api_key',
  'invalid_api_key',
  'request_timeout',
  'payload_too_large',
  'rate_limited',
  'headers_too_large',
  'internal_error',
  'unavailable',
];

/** Those of the common errors that handlers throw too. */
const COMMON_HANDLER_ERRORS: readonly ErrorCode[] = ['internal_error', 'unavailable'];

const CHALLENGE: Headers = {
  'WWW-Authenticate': {
    description: 'How to authenticate. If a key was sent, it has the parameter `error`.',
    required: true,
    schema: {
      type: 'string',
      enum: [ERRORS.missing_api_key, ERRORS.invalid_api_key].map(
        ({ headers }) => headers['WWW-Authenticate'],
      ),
    },
  },
};

const RETRY_AFTER: Headers = {
  'Retry-After': {
    description: 'Seconds to wait before the next try.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
};

/** The headers of responses to counted requests, if the service has a limit. */
const RATE_LIMIT: Record<string, OpenAPIV3_1.HeaderObject> = {
  'RateLimit-Policy': {
    description: 'If the service has a rate limit: `q` requests in `w` seconds for the API key.',
    schema: { type: 'string', pattern: '^"default";q=[0-9]+;w=[0-9]+$' },
  },
  RateLimit: {
    description: 'If the service has a rate limit: `r` requests are left for the next `t` seconds.',
    schema: { type: 'string', pattern: '^"default";r=[0-9]+;t=[0-9]+$' },
  },
};

/** Errors of requests that the rate limit does not count. */
const UNCOUNTED: readonly ErrorCode[] = [
  'missing_api_key',
  'invalid_api_key',
  'method_not_allowed',
  'headers_too_large',
];

const HEADERS_OF_ERRORS: Partial<Record<ErrorCode, Headers>> = {
  missing_api_key: CHALLENGE,
  invalid_api_key: CHALLENGE,
  unsupported_media_type: {
    'Accept-Encoding': {
      description: 'If the content coding caused the error: the coding that is accepted.',
      schema: { type: 'string', enum: ['identity'] },
    },
  },
  rate_limited: { ...RETRY_AFTER, ...required(RATE_LIMIT) },
};

/** What is known of an operation's responses. */
interface OperationResponses {
  success: OpenAPIV3_1.ResponseObject;
  /** The status of `success`. */
  status: number;
  /** The errors that the handler itself throws. */
  errors: readonly ErrorCode[];
  /** The headers of every response that comes from the handler. */
  handlerHeaders: Record<string, OpenAPIV3_1.HeaderObject>;
}

/** Every response of an operation, by status. */
export function responsesOf({ success, status, errors, handlerHeaders }: OperationResponses) {
  const responses: OpenAPIV3_1.ResponsesObject = {
    [status]: withHeaders(success, { ...RATE_LIMIT, ...required(handlerHeaders) }),
  };
  const codes = (Object.keys(ERRORS) as ErrorCode[]).filter(
    (code) => COMMON_ERRORS.includes(code) || errors.includes(code),
  );
  for (const error of new Set(codes.map((code) => ERRORS[code].status))) {
    const alike = codes.filter((code) => ERRORS[code].status === error);
    let headers: Headers = {};
    if (alike.every((code) => errors.includes(code))) {
      headers = required(handlerHeaders);
    } else if (alike.some((code) => COMMON_HANDLER_ERRORS.includes(code))) {
      headers = handlerHeaders;
    }
    responses[error] = withHeaders(errorResponse(alike), headers);
  }
  return responses;
}

/** The response to a method that a path does not support. */
export function methodNotAllowed(allow: string): OpenAPIV3_1.ResponseObject {
  return withHeaders(errorResponse(['method_not_allowed']), {
    Allow: {
      description: 'The methods that the path supports.',
      required: true,
      schema: { type: 'string', enum: [allow] },
    },
  });
}

/** @param codes error codes of one status. */
function errorResponse(codes: ErrorCode[]): OpenAPIV3_1.ResponseObject {
  const { status } = ERRORS[codes[0]!];
  return {
    description: codes.map((code) => `\`${code}\`: ${code}`).join('\n\n'),
    headers: Object.assign(
      {},
      codes.every((code) => UNCOUNTED.includes(code)) ? {} : RATE_LIMIT,
      codes.some((code) => 'headers' in ERRORS[code]) ? RETRY_AFTER : {},
      ...codes.map((code) => HEADERS_OF_ERRORS[code]),
    ),
    content: {
      'application/json': {
        schema: {
          allOf: [
            { $ref: '#/components/schemas/Error' },
            {
              type: 'object',
              properties: {
                code: { type: 'string', enum: codes },
                status: { type: 'integer', const: status },
              },
            },
          ],
        },
        examples: Object.fromEntries(codes.map((code) => [code, { value: errorBody(code, code) }])),
      },
    },
  };
}

function withHeaders(response: OpenAPIV3_1.ResponseObject, headers: Headers) {
  const common = Object.keys(COMMON_HEADERS).map((name) => [
    name,
    { $ref: `#/components/headers/${name}` },
  ]);
  return {
    ...response,
    headers: { ...response.headers, ...headers, ...Object.fromEntries(common) },
  };
}

function required(headers: Record<string, OpenAPIV3_1.HeaderObject>): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, header]) => [name, { ...header, required: true }]),
  );
}
