/** Fastify 5 and pg: requests validated and answers serialized by schema, logged by Fastify's own pino. */
import { randomUUID } from 'node:crypto';
import Fastify, { LogController } from 'fastify';
import pg from 'pg';
import {
  BODY_LIMIT,
  DEPRECATION_HEADERS,
  errorBody,
  Fault,
  int64FromDecimal,
  logger,
  nextLink,
  parseJson,
  PET_STATUSES,
  startOf,
} from './contract.js';
import { PetsDatabase } from './pets-database.js';

/** Int64s as bigints, which the serializer writes exactly. */
const types = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format),
};
const database = new PetsDatabase({ types });

const app = Fastify({
  loggerInstance: logger,
  // By default two lines a request; the hook below writes one.
  logController: new LogController({ disableRequestLogging: true }),
  genReqId: () => randomUUID(),
  bodyLimit: BODY_LIMIT,
  ajv: {
    customOptions: {
      keywords: [{ keyword: 'int64', validate: (_, value) => typeof value === 'bigint' }],
    },
  },
});

app.addHook('onResponse', (request, reply, done) => {
  request.log.info(
    {
      method: request.method,
      route: request.routeOptions.url,
      status: reply.statusCode,
      ms: reply.elapsedTime,
      key: request.key,
    },
    'request',
  );
  done();
});

app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
  try {
    done(null, parseJson(text));
  } catch (error) {
    done(error);
  }
});

app.setErrorHandler((error, request, reply) => {
  if (error instanceof Fault) {
    return reply.code(error.body.status).headers(error.headers).send(error.body);
  }
  if (error.validation) {
    return reply.code(400).send(errorBody('invalid_request', error.message));
  }
  request.log.error({ err: error }, 'The service failed');
  return reply.code(500).send(Fault.internal().body);
});

const status = { type: 'string', enum: PET_STATUSES };

app.addSchema({
  $id: 'Pet',
  type: 'object',
  required: ['id', 'name', 'categoryId', 'status'],
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    categoryId: { type: 'integer' },
    status: { type: 'string' },
  },
});

app.register(
  async (pets) => {
    pets.decorateRequest('key', null);

    pets.addHook('onRequest', async (request, reply) => {
      reply.header('Cache-Control', 'no-store');
      request.key = await database.keys.authenticate(request.headers.authorization);
    });

    pets.get(
      '/',
      {
        schema: {
          querystring: {
            type: 'object',
            properties: {
              limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
              status,
              cursor: { type: 'string' },
            },
          },
          response: { 200: { type: 'array', items: { $ref: 'Pet#' } } },
        },
      },
      async (request, reply) => {
        const { query } = request;
        const page = { limit: query.limit, status: query.status, start: startOf(query.cursor) };
        const { pets: found, last } = await database.list(page);
        if (last !== undefined) {
          reply.header('Link', nextLink(page, last));
        }
        return found;
      },
    );

    pets.post(
      '/',
      {
        schema: {
          body: {
            type: 'object',
            required: ['name', 'categoryId'],
            properties: {
              name: { type: 'string', maxLength: 255, pattern: '\\S' },
              categoryId: { int64: true },
              status: { ...status, default: 'available' },
            },
          },
          response: { 201: { $ref: 'Pet#' } },
        },
      },
      async (request, reply) => {
        const pet = await database.create(request.body);
        reply.code(201).header('Location', `/v1/pets/${pet.id}`);
        return pet;
      },
    );

    pets.get(
      '/:petId',
      { schema: { response: { 200: { $ref: 'Pet#' } } } },
      async (request, reply) => {
        reply.headers(DEPRECATION_HEADERS);
        const id = int64FromDecimal(request.params.petId);
        const pet = id === undefined ? undefined : await database.get(id);
        if (pet === undefined) {
          throw Fault.noSuchPet();
        }
        return pet;
      },
    );
  },
  { prefix: '/v1/pets' },
);

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
