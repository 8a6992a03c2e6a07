import spectralCore, { type RulesetDefinition } from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';
import { stringify } from 'lossless-json';
import { parse as parseYaml } from 'yaml';
import { readEnvironment } from '../../src/config/environment.js';
import { ERRORS } from '../../src/errors/api-error.js';
import { DEFAULT_LIMIT } from '../../src/listing/list-query.js';
import { OpenApiDocument } from '../../src/openapi/openapi-document.js';
import {
  DOCUMENT,
  examplesOf,
  faultsBySchema,
  operations,
  parseExactly,
  resolved,
} from '../support/contract.js';
import { read } from '../support/documents.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const documentIn = (variables: Record<string, string>) =>
  new OpenApiDocument(readEnvironment(variables));
const OPERATIONS: any[] = documentIn({}).operations;
const { NewPet: NEW_PET } = DOCUMENT.components.schemas;

/** Values at the limits of a schema, values just beyond them, and some of other types. */
function edgesOf(given: any): unknown[] {
  const { enum: values = [], minimum, maximum, maxLength } = resolved<any>(given);
  const limits = [minimum, maximum].filter((limit) => limit !== undefined).map(BigInt);
  const integers = limits.flatMap((limit) => [limit - 1n, limit, limit + 1n]);
  const lengths = maxLength === undefined ? [] : [maxLength, maxLength + 1];
  return [
    '',
    'a',
    'Sold',
    'a\0',
    'a\n\r\u2028\u2029b',
    // All of Unicode's white space, and characters beside it that are none.
    '\t\n\v\f\r \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000',
    ...'\u180e\u200b\u2027\u202a\ufeff',
    true,
    null,
    ...values,
    ...integers.map((integer) => parseExactly(`${integer}`)),
    ...lengths.flatMap((length) => ['a'.repeat(length), '😀'.repeat(length)]),
  ];
}

const statusesOf = (errors: Record<string, { status: number }>) =>
  Object.fromEntries(Object.entries(errors).map(([code, { status }]) => [code, { status }]));

describe('the OpenAPI document', () => {
  const service = serviceOfTests({ DEPLOYMENT_ENVIRONMENT: 'production' });

  it('is served in production as docs/openapi.yaml has it, as JSON and as YAML, digit for digit', async () => {
    const json = await service.anonymous.get('/openapi.json').expect(200);
    expect(json.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(parseExactly(json.text)).toEqual(DOCUMENT);
    expect(json.text).toContain('"minimum":-9223372036854775808,"maximum":9223372036854775807');
    const yaml = await service.anonymous.get('/openapi.yaml').buffer().expect(200);
    expect(yaml.headers['content-type']).toMatch(/^application\/yaml\b/);
    const text = yaml.text ?? yaml.body.toString();
    expect(stringify(parseYaml(text, { intAsBigInt: true }))).toBe(json.text);
  });

  it.each(['$$', "$'", '$&', '$1'])('has a base URL with %s as it is set', (special) => {
    const url = `https://a.example/x${special}y/v1`;
    const { content, yaml } = documentIn({ PUBLIC_BASE_URL: url });
    expect(content.servers).toMatchObject([{ url }]);
    expect(yaml).toContain(`](${url.slice(0, -3)}/docs/guides/pagination)`);
  });

  const [HERE, THERE] = ['https://a.test/v1', 'https://b.test/v1'];
  const PRODUCTION = { NODE_ENV: 'production', DATABASE_URL: 'postgres://db.test/animals' };
  const STAGING = { ...PRODUCTION, DEPLOYMENT_ENVIRONMENT: 'staging', STAGING_BASE_URL: THERE };
  it.each<[Record<string, string>, string[]]>([
    [{ PUBLIC_BASE_URL: HERE }, [`Development ${HERE}`]],
    [{ ...PRODUCTION, STAGING_BASE_URL: THERE }, ['Production /v1', `Staging ${THERE}`]],
    [{ PUBLIC_BASE_URL: THERE, STAGING_BASE_URL: THERE }, [`Staging ${THERE}`]],
    [STAGING, ['Staging /v1']],
  ])('names each server once, after the environment that it is: %j', (variables, expected) => {
    const { servers } = documentIn(variables).content;
    expect(servers.map(({ url, description }: any) => `${description} ${url}`)).toEqual(expected);
  });

  it('links to guides that are there, at their public address, and to none if DOCS is off', async () => {
    const guidesIn = (text: string) => text.match(/[^(]*\/docs\/guides\/[\w-]+(?=\))/g) ?? [];
    const guides = guidesIn(documentIn({}).yaml);
    expect(new Set(guides).size).toBe(5);
    for (const path of guides) {
      await service.anonymous.get(path).expect(200);
    }
    const [guide] = guidesIn(documentIn({ PUBLIC_BASE_URL: 'https://a.test/store/v1' }).yaml);
    expect(guide).toBe(`https://a.test/store${guides[0]}`);
    expect(documentIn({ DOCS: 'off' }).yaml).not.toMatch(/More in|\(\/docs/);
  });

  // Each response of getPet is compared with its headers in the document.
  it('marks listOrders as experimental, with nothing to try, getPet as deprecated until its removal, and no other', () => {
    expect(Object.fromEntries(OPERATIONS.map((one) => [one.operationId, one]))).toMatchObject({
      listPets: { 'x-stability': 'stable' },
      createPet: { 'x-stability': 'stable' },
      getPet: {
        'x-stability': 'deprecated',
        'x-deprecated-sunset': '2030-12-05',
        deprecated: true,
      },
      listOrders: { 'x-stability': 'experimental', 'x-hideTryItPanel': true },
    });
    const deprecated = OPERATIONS.filter((one) => /[dD]eprecat|[sS]unset/.test(stringify(one)!));
    expect(deprecated.map(({ operationId }) => operationId)).toEqual(['getPet']);
  });

  /** The codes of exceptions of Nest, which a module may document. */
  const OF_NEST = {
    forbidden: { status: 403 },
    not_found: { status: 404 },
    conflict: { status: 409 },
    unprocessable_entity: { status: 422 },
  };

  it('has the errors of src/errors/api-error.ts, each at its status, and no others but those of Nest', () => {
    const responses: [status: string, response: any][] = [
      ...OPERATIONS.flatMap((one) => Object.entries(one.responses)),
      ['404', DOCUMENT['x-route-not-found']],
      ['405', DOCUMENT['x-method-not-allowed']],
    ];
    const errors = responses.flatMap(([at, response]) => {
      const content = resolved<any>(response).content?.['application/json'];
      const [, own] = resolved<any>(content?.schema)?.allOf ?? [];
      // Without a type, some generators leave its codes out.
      const codes: string[] = own?.type === 'object' ? own.properties.code.enum : [];
      const expected = codes.map((code) => `${code} ${at}`);
      const examples = at < '400' ? [] : examplesOf(content);
      const shown = examples.map(({ code, status }) => `${code} ${status}`);
      expect(shown.toSorted()).toEqual(expected.toSorted());
      return codes.map((code) => [code, { status: Number(at) }]);
    });
    const documented = Object.fromEntries(errors);
    expect({ ...OF_NEST, ...ERRORS }).toMatchObject(documented);
    expect({ ...OF_NEST, ...documented }).toEqual(expect.objectContaining(statusesOf(ERRORS)));
  });

  it.each(OPERATIONS)(
    'requires of $operationId what the service refuses it without, and nothing else',
    async ({ method, path, parameters, requestBody }) => {
      const asked = parameters.map(resolved).filter((one: any) => one.in !== 'path');
      const required = asked.flatMap((one: any) => (one.required ? one.name : []));
      const { status } = await send(service, { method, path: `/v1${path}` });
      expect([...required, ...(requestBody?.required ? ['body'] : [])]).toEqual(
        status === 400 ? ['body'] : [],
      );
    },
  );

  it('promises the headers and fields of a response that no parameter and no setting takes from it', async () => {
    for (const name of ['Rex', 'Max']) {
      await service.api.post('/v1/pets').send({ name, categoryId: 1 }).expect(201);
    }
    await service.query('insert into orders (pet_id) select max(id) from pets');
    const allowed = operations().map((one) => ({ ...one, key: service.key }));
    const refused = { ...allowed[0]!, success: 401, key: 'unknown' };
    for (const { operationId, method, path, success, body, key } of [...allowed, refused]) {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const answer = await send(service, { method, path, headers, body: stringify(body) ?? '' });
      const { responses } = OPERATIONS.find((one) => one.operationId === operationId);
      const { headers: known, content } = resolved<any>(responses[success]);
      const schema = resolved<any>(content?.['application/json'].schema ?? {});
      const { required = [] } = resolved<any>(schema.items ?? schema.allOf?.[0] ?? schema);
      const promised = Object.keys(known).filter((name) => resolved<any>(known[name]).required);
      const sent = Object.keys(known).filter((name) => name.toLowerCase() in answer.headers);
      const [item] = [JSON.parse(answer.text || '{}')].flat();
      const what = [operationId, answer.status];
      expect([...what, promised, required.toSorted()]).toEqual([
        operationId,
        success,
        sent,
        Object.keys(item).toSorted(),
      ]);
    }
  });

  /** Expects of an error a reason that a form can show beside the field. */
  const expectReason = (field: string, status: number, body: { message?: string }) =>
    expect(body.message ?? '').toMatch(status === 400 ? RegExp(`^${field}: [^:;]{9,50}$`) : /^$/);

  const QUERY = OPERATIONS.flatMap(({ operationId, path, parameters }) =>
    parameters
      .map(resolved)
      .filter((parameter: any) => parameter.in === 'query')
      .map((parameter: any) => ({ ...parameter, operationId, path })),
  );

  it.each(QUERY)(
    'has the limits and the default that $name of $operationId has',
    async ({ name, path, schema }) => {
      expect(schema.default).toBe(name === 'limit' ? DEFAULT_LIMIT : undefined);
      for (const value of edgesOf(schema)) {
        const status = faultsBySchema(schema, value).length === 0 ? 200 : 400;
        const text = encodeURIComponent(String(value));
        const { body } = await service.api.get(`/v1${path}?${name}=${text}`).expect(status);
        expectReason(name, status, body);
      }
    },
  );

  it.each(Object.keys(NEW_PET.properties))(
    'has the limits that %s of a new pet has',
    async (field) => {
      for (const value of [undefined, ...edgesOf(NEW_PET.properties[field])]) {
        const pet = { name: 'Rex', categoryId: 1, [field]: value };
        const status = faultsBySchema(NEW_PET, pet).length === 0 ? 201 : 400;
        const sent = service.api.post('/v1/pets').type('json').send(stringify(pet)!);
        expectReason(field, status, (await sent.expect(status)).body);
      }
    },
  );
});

it("docs/openapi.yaml keeps Spectral's rules for OpenAPI", async () => {
  const linter = new spectralCore.Spectral();
  linter.setRuleset({ extends: [[oas as RulesetDefinition, 'recommended']] });
  expect(await linter.run(parseYaml(read('docs/openapi.yaml')))).toEqual([]);
});
