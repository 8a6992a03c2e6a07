import { type ErrorCode, ERRORS } from '../../src/errors/api-error.js';
import { DOCUMENT, examplesOf } from '../support/contract.js';
import { RawConnection, request } from '../support/raw-http.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

/** More requests a minute than the other tests send. */
const LIMIT = 30;

const service = serviceOfTests({ RATE_LIMIT_PER_MINUTE: `${LIMIT}` }, undefined, {
  limits: { headersTimeout: 500, requestTimeout: 500 },
});
// A pet whose name is an SQLSTATE is rejected with it.
beforeAll(() =>
  service.query(
    `create function fail() returns trigger language plpgsql as
       $$ begin raise 'failed' using errcode = new.name; end $$;
     create trigger fail before insert on pets for each row
       when (new.name ~ '^[0-9A-Z]{5}$') execute function fail()`,
  ),
);

const create = (pet: object, headers: Record<string, string> = {}) =>
  service.api.post('/v1/pets').set(headers).send(pet);
const named = (name: string) => create({ name, categoryId: 1 });
const withKey = (key: string, name = 'Rex') =>
  create({ name, categoryId: 1 }, { 'Idempotency-Key': key });

/** What provokes each error: a request for each example that the document has of it, in its order. */
const PROVOKED: Partial<
  Record<ErrorCode, (() => PromiseLike<{ status: number; text: string }>)[]>
> = {
  invalid_request: [() => service.api.get('/v1/pets?limit=1000'), () => create({ name: 5 })],
  invalid_json: [() => service.api.post('/v1/pets').type('json').send('{')],
  missing_api_key: [() => service.anonymous.get('/v1/pets')],
  invalid_api_key: [() => service.anonymous.get('/v1/pets').set('Authorization', 'Bearer x')],
  pet_not_found: [() => service.api.get('/v1/pets/0')],
  route_not_found: [() => service.api.get('/v1/Pets')],
  method_not_allowed: [() => service.api.delete('/v1/pets')],
  request_timeout: [
    async () => {
      const connection = await RawConnection.open(service.port);
      connection.send(request('GET /v1/pets').slice(0, -1));
      return connection.answer();
    },
  ],
  idempotency_key_in_use: [
    async () => {
      const holder = await service.pool.connect();
      await holder.query(`select pg_advisory_lock(hashint8(id), hashtext('in-use')) from api_keys`);
      const answer = await withKey('in-use');
      holder.release(true);
      return answer;
    },
  ],
  payload_too_large: [() => named('a'.repeat(20_000))],
  unsupported_media_type: [() => service.api.post('/v1/pets').type('text').send('Rex')],
  idempotency_key_reused: [() => withKey('used').then(() => withKey('used', 'Max'))],
  rate_limited: [
    async () => {
      const { key } = await service.keys.issue('limited');
      const headers = { Authorization: `Bearer ${key}` };
      const get = () => send(service, { method: 'GET', headers });
      await Promise.all(Array.from({ length: LIMIT }, get));
      return get();
    },
  ],
  headers_too_large: [() => service.api.get('/v1/pets').set('X-Long', 'x'.repeat(20_000))],
  internal_error: [() => named('XX000')],
  unavailable: [() => named('57P03')],
};

const { responses } = DOCUMENT.components;
const EXAMPLES: { code: string; status: number }[] = [
  ...Object.values<any>(responses),
  DOCUMENT['x-route-not-found'],
  DOCUMENT['x-method-not-allowed'],
].flatMap(({ content }) => examplesOf(content['application/json']));

it.each(Object.keys(PROVOKED) as ErrorCode[])(
  'the examples that the OpenAPI document has of %s are what the service sends',
  async (code) => {
    const examples = EXAMPLES.filter((one) => one.code === code).map((one) => JSON.stringify(one));
    const sent: string[] = [];
    for (const provoke of PROVOKED[code]!) {
      const { status, text } = await provoke();
      expect(status).toBe(ERRORS[code].status);
      sent.push(text);
    }
    expect([...new Set(examples)]).toEqual(sent);
  },
);
