import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Controller, Get } from '@nestjs/common';
import { parse, stringify } from 'lossless-json';
import { readEnvironment } from '../../src/config/environment.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { deprecationHeaders, GET_PET_DEPRECATION } from '../../src/deprecation/deprecation.js';
import { validate } from '../../src/validation/validate.js';
import { Operation } from '../../src/openapi/operation.decorator.js';
import { openApiDocument } from '../../src/openapi/openapi-document.js';
import { NewPet } from '../../src/pets/new-pet.dto.js';
import { PetsController } from '../../src/pets/pets.controller.js';
import { serviceOfTests } from '../support/service.js';
import { faultsBySchema } from '../support/contract.js';

const COMMITTED = readFileSync(join(PROJECT_ROOT, 'docs/openapi.json'), 'utf8');
const document = JSON.parse(COMMITTED);
const pets = document.paths['/pets'];
const pet = document.paths['/pets/{petId}'];

const isTaken = (body: object): boolean => validate(NewPet, body).errors.length === 0;
const isDocumented = (body: object) =>
  faultsBySchema(document.components.schemas.NewPet, body).length === 0;

describe('GET /openapi.json', () => {
  const service = serviceOfTests({ DEPLOYMENT_ENVIRONMENT: 'production' });

  it('answers in production with docs/openapi.json, digit for digit; npm run openapi writes that file', async () => {
    const { text, headers } = await service.anonymous.get('/openapi.json').expect(200);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    expect(`${stringify(parse(text), undefined, 2)}\n`).toBe(COMMITTED);
  });

  it.each<[Record<string, string>, [url: string, description: string][]]>([
    [{}, [['/v1', 'Development']]],
    [{ DEPLOYMENT_ENVIRONMENT: 'production' }, [['/v1', 'Production']]],
    [{ DEPLOYMENT_ENVIRONMENT: 'staging' }, [['/v1', 'Staging']]],
    [{ PUBLIC_BASE_URL: 'https://a.test/v1' }, [['https://a.test/v1', 'Development']]],
    [
      { DEPLOYMENT_ENVIRONMENT: 'production', STAGING_BASE_URL: 'https://b.test/v1' },
      [
        ['/v1', 'Production'],
        ['https://b.test/v1', 'Staging'],
      ],
    ],
    [
      {
        DEPLOYMENT_ENVIRONMENT: 'production',
        PUBLIC_BASE_URL: 'https://a.test/v1',
        STAGING_BASE_URL: 'https://b.test/v1',
      },
      [
        ['https://a.test/v1', 'Production'],
        ['https://b.test/v1', 'Staging'],
      ],
    ],
    [
      {
        DEPLOYMENT_ENVIRONMENT: 'staging',
        PUBLIC_BASE_URL: 'https://b.test/v1',
        STAGING_BASE_URL: 'https://b.test/v1',
      },
      [['https://b.test/v1', 'Staging']],
    ],
    [
      { DEPLOYMENT_ENVIRONMENT: 'staging', STAGING_BASE_URL: 'https://b.test/v1' },
      [['/v1', 'Staging']],
    ],
  ])('names each server once, after the environment that it is: %j', (variables, expected) => {
    const { servers } = openApiDocument([], readEnvironment(variables));
    expect(servers!.map(({ url, description }) => [url, description])).toEqual(expected);
  });

  it('has listPets, createPet and getPet', () => {
    expect([pets.get, pets.post, pet.get].map(({ operationId }) => operationId)).toEqual([
      'listPets',
      'createPet',
      'getPet',
    ]);
  });

  it('has listOrders, as an experiment that no panel offers to try', () => {
    expect(document.paths['/store/orders'].get).toMatchObject({
      operationId: 'listOrders',
      'x-stability': 'experimental',
      'x-scalar-stability': 'experimental',
      'x-badges': [{ name: 'Experimental' }],
      'x-hideTryItPanel': true,
    });
  });

  it('links to guides that are there, and to none where DOCS is off', async () => {
    const guidesIn = (text: string) => text.match(/\/docs\/guides\/[\w-]+(?=\))/g) ?? [];
    expect(new Set(guidesIn(COMMITTED)).size).toBe(5);
    for (const path of guidesIn(COMMITTED)) {
      await service.anonymous.get(path).expect(200);
    }
    const withoutDocs = openApiDocument([PetsController], readEnvironment({ DOCS: 'off' }));
    expect(guidesIn(stringify(withoutDocs)!)).toEqual([]);
  });

  it('writes the bounds of int64 in full', () => {
    const bounds = COMMITTED.match(/"(?:minimum|maximum)": -?\d{19}\b/g);
    expect(new Set(bounds)).toEqual(
      new Set(['"minimum": -9223372036854775808', '"maximum": 9223372036854775807']),
    );
    expect(COMMITTED.match(/"format": "int64"/g)).toHaveLength(bounds!.length / 2);
  });

  it('has the dates of the deprecation from where the headers have them', () => {
    const { Deprecation, Sunset, Link } = deprecationHeaders(
      GET_PET_DEPRECATION,
      readEnvironment({}),
    );
    expect(pet.get).toMatchObject({
      deprecated: true,
      'x-deprecated-sunset': '2030-12-05',
      'x-stability': 'deprecated',
      'x-scalar-stability': 'deprecated',
    });
    for (const status of [200, 404]) {
      expect(pet.get.responses[status].headers).toMatchObject({
        Deprecation: { required: true, schema: { enum: [Deprecation] } },
        Sunset: { required: true, schema: { enum: [Sunset] } },
        Link: { required: true, example: Link },
      });
    }
    for (const operation of [pets.get, pets.post]) {
      expect(operation['x-stability']).toBe('stable');
      expect(JSON.stringify(operation)).not.toMatch(/deprecated|Sunset/);
    }
  });

  it('has for limit the bounds and the default that the service has', async () => {
    const { minimum, maximum, default: usual } = pets.get.parameters[0].schema;
    for (let i = 0; i <= usual; i += 1) {
      await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    }
    expect((await service.api.get('/v1/pets').expect(200)).body).toHaveLength(usual);
    await service.api.get(`/v1/pets?limit=${minimum}`).expect(200);
    await service.api.get(`/v1/pets?limit=${minimum - 1}`).expect(400);
    await service.api.get(`/v1/pets?limit=${maximum}`).expect(200);
    await service.api.get(`/v1/pets?limit=${maximum + 1}`).expect(400);
  });

  it('has in NewPet the names that the service takes, and no others', () => {
    const differing = [];
    for (let code = 0; code < 0x1_0000; code += 1) {
      const name = String.fromCodePoint(code);
      // Schemas cannot speak of lone surrogates.
      if (name.isWellFormed()) {
        const body = { name, categoryId: 1n };
        if (isTaken(body) !== isDocumented(body)) {
          differing.push(code.toString(16));
        }
      }
    }
    expect(differing).toEqual([]);
  });

  it.each([
    ['an empty one', '', false],
    ['255 letters', 'a'.repeat(255), true],
    ['255 characters outside the BMP', '😀'.repeat(255), true],
    ['256 letters', 'a'.repeat(256), false],
    ['white space around a letter', ' a ', true],
    ['white space', ' \n\u3000', false],
    ['U+0000 behind a letter', 'a\0', false],
  ])('has in NewPet a name or not as the service takes it or not: %s', (_title, name, expected) => {
    const body = { name, categoryId: 1n };
    expect([isTaken(body), isDocumented(body)]).toEqual([expected, expected]);
  });
});

describe('an operation in the OpenAPI document', () => {
  it('may be experimental and without a panel to try it', () => {
    @Controller({ path: 'things', version: '1' })
    class ThingsController {
      @Get(':thingId/parts')
      @Operation({
        tag: { name: 'Things' },
        summary: 'List parts',
        description: 'Parts.',
        stability: 'experimental',
        hasTryItPanel: false,
        success: { description: 'Parts.' },
        schemas: {},
      })
      listParts() {}

      @Get()
      undescribed() {}
    }
    const { paths } = openApiDocument([ThingsController], readEnvironment({}));
    expect(paths).toEqual({
      '/things/{thingId}/parts': expect.objectContaining({
        get: expect.objectContaining({
          operationId: 'listParts',
          'x-stability': 'experimental',
          'x-scalar-stability': 'experimental',
          'x-badges': [{ name: 'Experimental' }],
          'x-hideTryItPanel': true,
        }),
      }),
    });
  });
});
