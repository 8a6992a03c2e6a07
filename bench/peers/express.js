/** Express 5, pg and pino-http. */
import { randomUUID } from 'node:crypto';
import express from 'express';
import { pinoHttp } from 'pino-http';
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

const app = express();
app.disable('x-powered-by');
app.disable('etag');

app.use(
  pinoHttp({
    logger,
    genReqId: () => randomUUID(),
    quietReqLogger: true,
    customProps: (_request, { locals }) => ({ key: locals.key }),
    serializers: {
      req: ({ method, url }) => ({ method, url }),
      res: ({ statusCode }) => ({ status: statusCode }),
    },
  }),
);

const pets = express.Router();

pets.use(async (request, response, next) => {
  response.set('Cache-Control', 'no-store');
  response.locals.key = await database.keys.authenticate(request.headers.authorization);
  next();
});

pets.get('/', async (request, response) => {
  const page = pageRequest(request.query);
  const { pets: found, last } = await database.list(page);
  if (last !== undefined) {
    response.set('Link', nextLink(page, last));
  }
  response.type(JSON_TYPE).send(petsJson(found));
});

// As text: express.json() would round an int64.
pets.post(
  '/',
  express.text({ type: 'application/json', limit: BODY_LIMIT }),
  async (request, response) => {
    const pet = await database.create(newPet(parseJson(request.body)));
    response.status(201).location(`/v1/pets/${pet.id}`).type(JSON_TYPE).send(petJson(pet));
  },
);

pets.get('/:petId', async (request, response) => {
  response.set(DEPRECATION_HEADERS);
  const id = int64FromDecimal(request.params.petId);
  const pet = id === undefined ? undefined : await database.get(id);
  if (pet === undefined) {
    throw Fault.noSuchPet();
  }
  response.type(JSON_TYPE).send(petJson(pet));
});

app.use('/v1/pets', pets);

// Express knows an error handler by its four parameters.
app.use((error, _request, response, _next) => {
  const { body, headers } = error instanceof Fault ? error : Fault.internal();
  if (body.status === 500) {
    response.err = error;
  }
  response.status(body.status).set(headers).json(body);
});

app.listen(Number(process.env.PORT), '127.0.0.1');
