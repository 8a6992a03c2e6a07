/** Bare node:http and pg: what the contract costs without any framework. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parse } from 'node:querystring';
import {
  BODY_LIMIT,
  DEPRECATION_HEADERS,
  Fault,
  int64FromDecimal,
  JSON_TYPE,
  logger,
  newPet,
  nextLink,
  pageRequest,
  parseJson,
  petJson,
  petsJson,
} from './contract.js';
import { PetsDatabase } from './pets-database.js';

const database = new PetsDatabase();

createServer(serve).listen(Number(process.env.PORT), '127.0.0.1');

async function serve(request, response) {
  const receivedAt = performance.now();
  const call = {};
  try {
    await handle(request, response, call);
  } catch (error) {
    const { body, headers } = error instanceof Fault ? error : Fault.internal();
    if (body.status === 500) {
      logger.error({ err: error }, body.message);
    }
    send(response, body.status, JSON.stringify(body), headers);
  }
  logger.info(
    {
      request: randomUUID(),
      method: request.method,
      route: call.route,
      status: response.statusCode,
      ms: Math.round((performance.now() - receivedAt) * 1000) / 1000,
      key: call.key,
    },
    'request',
  );
}

async function handle(request, response, call) {
  const { method, url } = request;
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  if (path === '/v1/pets' && method === 'GET') {
    call.route = '/v1/pets';
    call.key = await database.keys.authenticate(request.headers.authorization);
    const page = pageRequest(mark === -1 ? {} : parse(url.slice(mark + 1)));
    const { pets, last } = await database.list(page);
    const headers = last === undefined ? {} : { Link: nextLink(page, last) };
    send(response, 200, petsJson(pets), headers);
  } else if (path === '/v1/pets' && method === 'POST') {
    call.route = '/v1/pets';
    call.key = await database.keys.authenticate(request.headers.authorization);
    const pet = await database.create(newPet(parseJson(await textOf(request))));
    send(response, 201, petJson(pet), { Location: `/v1/pets/${pet.id}` });
  } else if (path.startsWith('/v1/pets/') && method === 'GET') {
    call.route = '/v1/pets/:petId';
    call.key = await database.keys.authenticate(request.headers.authorization);
    const id = int64FromDecimal(path.slice('/v1/pets/'.length));
    const pet = id === undefined ? undefined : await database.get(id);
    if (pet === undefined) {
      send(response, 404, JSON.stringify(Fault.noSuchPet().body), DEPRECATION_HEADERS);
    } else {
      send(response, 200, petJson(pet), DEPRECATION_HEADERS);
    }
  } else {
    throw Fault.noSuchRoute();
  }
}

function send(response, status, body, headers) {
  response.writeHead(status, {
    'Content-Type': JSON_TYPE,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    ...headers,
  });
  response.end(body);
}

function textOf(request) {
  return new Promise((resolve, reject) => {
    const chunks = [];
    let bytes = 0;
    request.on('data', (chunk) => {
      bytes += chunk.length;
      if (bytes > BODY_LIMIT) {
        reject(new Fault('payload_too_large', `The body is over ${BODY_LIMIT} bytes.`));
      } else {
        chunks.push(chunk);
      }
    });
    request.once('end', () => resolve(Buffer.concat(chunks).toString()));
    request.once('error', reject);
  });
}
