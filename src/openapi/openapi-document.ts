import { HttpStatus, RequestMethod, type Type } from '@nestjs/common';
import { HTTP_CODE_METADATA, METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { MetadataScanner } from '@nestjs/core';
import type { OpenAPIV3_1 } from 'openapi-types';
import type { DeploymentEnvironment, Environment } from '../config/environment.js';
import { type Deprecation, DEPRECATION, deprecationHeaders } from '../deprecation/deprecation.js';
import { WELL_FORMED_ID } from '../http/request-id.js';
import { COMMON_HEADERS, ERROR_SCHEMA, methodNotAllowed, responsesOf } from './responses.js';
import { OPERATION, type OperationDescription } from './operation.decorator.js';

export const TITLE = 'Animal Store Service';

/** The version of the interface (part 9). Base URLs end in its major version, as `/v1`. */
export const VERSION = '1.0.0';

const INTRODUCTION = `A store of animals: list them, add them, and (deprecated) fetch one by its id.

**API key.** Every operation requires one: \`Authorization: Bearer <API key>\`.`;

const NUMBERS = `**Numbers.** \`id\` and \`categoryId\` are int64, exact in every digit. Read them with a parser that keeps integers beyond
2^53. Clients in TypeScript that are generated from this document round them.`;

const ERRORS_AND_METHODS = `**Errors.** Every error has the body \`{"code","message","status"}\`. Branch on \`code\`.

**Methods.** HEAD gets the response of GET without the body. OPTIONS gets 204 with \`Allow\`. A method that the path
does not support gets 405 \`method_not_allowed\` with \`Allow\`.`;

const GENERATED_CLIENTS = { title: 'Generated clients', path: '/docs/guides/generated-clients' };

const GUIDES = { title: 'the guides', path: '/docs/guides/getting-started' };

const REQUEST_ID_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'X-Request-Id',
  in: 'header',
  description: `An id for the request. The response and the log contain it. If it does not match \`${WELL_FORMED_ID.source}\`, or contains an API key or part of one, the service replaces it.`,
  schema: { type: 'string' },
};

const TRACE_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'traceparent',
  in: 'header',
  description: 'The trace that the request belongs to, for the log (W3C Trace Context).',
  schema: { type: 'string' },
  example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
};

const COMMON_PARAMETERS = { 'X-Request-Id': REQUEST_ID_PARAMETER, traceparent: TRACE_PARAMETER };

/** A handler that is in the document. */
export interface DescribedHandler extends OperationDescription {
  /** Its name. */
  operationId: string;
  /** The path after `/v1`, with parameters in braces. */
  path: string;
  method: Lowercase<keyof typeof RequestMethod>;
  /** The status of its successful response. */
  status: number;
  deprecation?: Deprecation;
}

/**
 * The OpenAPI 3.1 document of the handlers that are marked by `@Operation`. Its paths do not contain `/v1`, because the
 * server URLs end in it.
 *
 * @returns an object in which int64 are bigints: JSON.stringify cannot write it.
 */
export function openApiDocument(
  controllers: Type[],
  environment: Environment,
): OpenAPIV3_1.Document {
  const operations = controllers.flatMap(describedHandlers);
  const tags = new Map(operations.map(({ tag }) => [tag.name, tag]));
  return {
    openapi: '3.1.1',
    info: {
      title: TITLE,
      version: VERSION,
      description: [
        INTRODUCTION,
        withGuide(NUMBERS, GENERATED_CLIENTS, environment),
        withGuide(ERRORS_AND_METHODS, GUIDES, environment),
      ].join('\n\n'),
      contact: { name: 'Whoever runs the service and issued your API key' },
      license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    },
    servers: serversOf(environment),
    security: [{ apiKey: [] }],
    tags: [...tags.values()],
    paths: pathsOf(operations, environment),
    components: {
      schemas: Object.assign({ Error: ERROR_SCHEMA }, ...operations.map(({ schemas }) => schemas)),
      headers: COMMON_HEADERS,
      parameters: COMMON_PARAMETERS,
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'The API key, as the bearer token.',
        },
      },
    },
  };
}

const SERVER_DESCRIPTIONS: Readonly<Record<DeploymentEnvironment, string>> = {
  production: 'Production',
  staging: 'Staging',
  development: 'Development',
};

/** This server. If `STAGING_BASE_URL` is set and this is not staging, also that one (interface, part 1). */
function serversOf({
  baseUrl,
  deployment,
  STAGING_BASE_URL,
}: Environment): OpenAPIV3_1.ServerObject[] {
  const servers = [{ url: baseUrl, description: SERVER_DESCRIPTIONS[deployment] }];
  if (deployment !== 'staging' && STAGING_BASE_URL !== undefined) {
    servers.push({ url: STAGING_BASE_URL, description: SERVER_DESCRIPTIONS.staging });
  }
  return servers;
}

/** @returns the handlers of `controller` that are marked by `@Operation`. */
export function describedHandlers(controller: Type): DescribedHandler[] {
  const read = (key: string, target: object) => Reflect.getMetadata(key, target);
  return new MetadataScanner().getAllMethodNames(controller.prototype).flatMap((operationId) => {
    const handler = controller.prototype[operationId];
    const description: OperationDescription | undefined = read(OPERATION, handler);
    if (description === undefined) {
      return [];
    }
    const segments = [read(PATH_METADATA, controller), read(PATH_METADATA, handler)]
      .flatMap((path: string) => path.split('/'))
      .filter((segment) => segment !== '')
      .map((segment) => segment.replace(/^:(.*)/, '{$1}'));
    const method = RequestMethod[read(METHOD_METADATA, handler)]!.toLowerCase();
    return [
      {
        ...description,
        operationId,
        path: `/${segments.join('/')}`,
        method,
        deprecation: read(DEPRECATION, handler),
        status:
          read(HTTP_CODE_METADATA, handler) ??
          (method === 'post' ? HttpStatus.CREATED : HttpStatus.OK),
      } as DescribedHandler,
    ];
  });
}

function pathsOf(
  operations: DescribedHandler[],
  environment: Environment,
): OpenAPIV3_1.PathsObject {
  const paths: OpenAPIV3_1.PathsObject = {};
  for (const path of new Set(operations.map((operation) => operation.path))) {
    const here = operations.filter((operation) => operation.path === path);
    const methods = here.map(({ method }) => method.toUpperCase());
    paths[path] = {
      parameters: Object.keys(COMMON_PARAMETERS).map((name) => ({
        $ref: `#/components/parameters/${name}`,
      })),
      ...Object.fromEntries(
        here.map((operation) => [operation.method, operationObject(operation, environment)]),
      ),
      // OpenAPI has no place for the response to a method that a path does not support.
      'x-method-not-allowed': methodNotAllowed(
        ((methods: string[]) => [...methods, 'OPTIONS'].join(', '))(methods),
      ),
    } as OpenAPIV3_1.PathItemObject;
  }
  return paths;
}

function operationObject(
  operation: DescribedHandler,
  environment: Environment,
): OpenAPIV3_1.OperationObject {
  const { operationId, tag, summary, description, guide, parameters, requestBody, deprecation } =
    operation;
  const { success, status, errors = [], hasTryItPanel = true } = operation;
  return {
    operationId,
    tags: [tag.name],
    summary,
    description: withGuide(description, guide, environment),
    ...markers(deprecation === undefined ? operation.stability : 'deprecated'),
    ...(deprecation && {
      deprecated: true,
      'x-deprecated-sunset': deprecation.sunset.toISOString().slice(0, 10),
    }),
    ...(hasTryItPanel ? {} : { 'x-hideTryItPanel': true }),
    ...(parameters && { parameters }),
    ...(requestBody && { requestBody }),
    responses: responsesOf({
      success,
      status,
      errors,
      handlerHeaders: deprecation === undefined ? {} : headersOf(deprecation, environment),
    }),
  };
}

/** Stability as GitBook (`x-stability`), Scalar (`x-scalar-stability`) and Redoc (`x-badges`) read it. */
function markers(stability: OperationDescription['stability'] | 'deprecated') {
  return {
    'x-stability': stability,
    'x-scalar-stability': stability,
    ...(stability === 'experimental' && { 'x-badges': [{ name: 'Experimental' }] }),
  };
}

function headersOf(
  deprecation: Deprecation,
  environment: Environment,
): Record<string, OpenAPIV3_1.HeaderObject> {
  const { Deprecation, Sunset, Link } = deprecationHeaders(deprecation, environment);
  return {
    Deprecation: {
      description: 'Since when the operation is deprecated (RFC 9745).',
      schema: { type: 'string', enum: [Deprecation] },
    },
    Sunset: {
      description: 'When it is to be removed (RFC 8594).',
      schema: { type: 'string', enum: [Sunset] },
    },
    Link: {
      description:
        'What to use instead (RFC 5829). If the service serves its guides, also the guide that says how (RFC 9745).',
      schema: { type: 'string', pattern: DEPRECATION_LINK },
      example: Link,
    },
  };
}

const DEPRECATION_LINK =
  '^<[^<>]+>; rel="successor-version"(, <[^<>]+>; rel="deprecation"; type="text/html")?$';

/** @returns a description with a link to the guide that says more, if the guides are served. */
function withGuide(
  description: string,
  guide: OperationDescription['guide'],
  { DOCS, publicRoot }: Environment,
): string {
  return guide !== undefined && DOCS === 'on'
    ? `${description}\n\nMore in [${guide.title}](${publicRoot}${guide.path}).`
    : description;
}
