import type { AddressInfo } from 'node:net';
import {
  BadRequestException,
  Controller,
  ForbiddenException,
  Get,
  HttpException,
  type INestApplication,
  Module,
  NotFoundException,
  Param,
} from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import supertest from 'supertest';
import { ApiError } from '../../src/errors/api-error.js';
import { ErrorFilter } from '../../src/errors/error.filter.js';
import { type ErrorCode, ERRORS } from '../../src/errors/errors.js';
import { HttpAdapter } from '../../src/http/http-adapter.js';
import { createLogger, LOGGER } from '../../src/logging/logger.js';
import { expectError } from '../support/answers.js';

const SECRET = 'select secret from innards';
const loop: { self?: unknown } = {};
loop.self = loop;

const FAULTS: [string, unknown][] = [
  ['null', null],
  ['undefined', undefined],
  ['an empty string', ''],
  ['a string', SECRET],
  ['a number', 404],
  ['NaN', NaN],
  ['a bigint', 1n],
  ['a symbol', Symbol(SECRET)],
  ['a function', () => SECRET],
  ['an object', { status: 200, code: SECRET, message: SECRET }],
  ['an object with the shape of an Error', { code: 'pet_not_found', message: SECRET, status: 404 }],
  ['an object without a prototype', Object.create(null)],
  ['an object that holds itself', loop],
  ['an array', [SECRET]],
  ['a Promise', Promise.resolve(SECRET)],
  ['an Error', new Error(SECRET)],
  ['an Error without a message', new Error()],
  ['an Error with .status', Object.assign(new Error(SECRET), { status: 400 })],
  ['an Error with .statusCode', Object.assign(new Error(SECRET), { statusCode: 404 })],
  ['an Error with .expose', Object.assign(new Error(SECRET), { status: 418, expose: true })],
  ['an Error with .headers', Object.assign(new Error(SECRET), { headers: { 'X-Secret': SECRET } })],
  ['a TypeError', new TypeError(SECRET)],
  ['an AggregateError', new AggregateError([new Error(SECRET)], SECRET)],
  ['a failed statement', Object.assign(new Error(SECRET), { code: '42601', detail: SECRET })],
  ['an HttpException of 500', new HttpException({ detail: SECRET }, 500)],
  ['an HttpException of 302', new HttpException(SECRET, 302)],
  ['an HttpException of 200', new HttpException(SECRET, 200)],
  ['an HttpException of no status', new HttpException(SECRET, NaN)],
  ['a 403 of the framework', new ForbiddenException(SECRET)],
  ['a 404 of the framework', new NotFoundException(SECRET)],
  ['a 400 of the framework', new BadRequestException({ message: [SECRET] })],
];

const CLIENT_FAULTS: [string, unknown, ErrorCode][] = [
  ['an ApiError', new ApiError('pet_not_found', 'No such animal.'), 'pet_not_found'],
  [
    'a refused connection',
    Object.assign(new Error(SECRET), { code: 'ECONNREFUSED' }),
    'unavailable',
  ],
  [
    'an ApiError with a cause',
    new ApiError('unavailable', 'Try again.', { cause: new Error(SECRET) }),
    'unavailable',
  ],
];

@Controller()
class Faulty {
  @Get('thrown/:index')
  throwIt(@Param('index') index: number) {
    throw FAULTS[index]![1];
  }

  @Get('rejected/:index')
  reject(@Param('index') index: number) {
    return Promise.reject(FAULTS[index]![1]);
  }

  @Get('client/:index')
  throwClientFault(@Param('index') index: number) {
    throw CLIENT_FAULTS[index]![1];
  }
}

const log: string[] = [];
const logger = createLogger('trace', { write: (line: string) => void log.push(line) });

@Module({
  controllers: [Faulty],
  providers: [
    { provide: APP_FILTER, useClass: ErrorFilter },
    { provide: LOGGER, useValue: logger },
  ],
})
class FaultyModule {}

describe('whatever is thrown', () => {
  let app: INestApplication;
  let client: ReturnType<typeof supertest>;
  beforeAll(async () => {
    app = await NestFactory.create(FaultyModule, new HttpAdapter(logger), { logger: false });
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    client = supertest(`http://127.0.0.1:${port}`);
  });
  afterAll(() => app.close());
  beforeEach(() => {
    log.length = 0;
  });

  describe.each(['thrown', 'rejected'])('and %s', (how) => {
    it.each(FAULTS.map(([title], i) => [title, i] as const))(
      'is internal_error, told to the log only: %s',
      async (_title, i) => {
        const answer = await client.get(`/${how}/${i}`);
        expectError(answer, 500, 'internal_error');
        expect(JSON.parse(answer.text).message).toBe('The service failed; the fault is ours.');
        expect(JSON.stringify(answer.headers)).not.toContain('secret');
        const levels = log.map((line) => JSON.parse(line).level);
        expect(levels.toSorted()).toEqual(['error', 'info']);
      },
    );
  });

  it.each(CLIENT_FAULTS.map(([title, , code], i) => [title, code, i] as const))(
    '%s is %s, and quotes nothing',
    async (_title, code, i) => {
      const answer = await client.get(`/client/${i}`);
      expectError(answer, ERRORS[code].status, code);
      expect(answer.text).not.toContain(SECRET);
      expect(answer.headers['retry-after']).toBe(code === 'unavailable' ? '1' : undefined);
    },
  );

  it('has its stack in the log', async () => {
    const i = FAULTS.findIndex(([title]) => title === 'an Error');
    await client.get(`/thrown/${i}`).expect(500);
    const error = log.map((line) => JSON.parse(line)).find(({ level }) => level === 'error');
    expect(error.err).toMatchObject({ message: SECRET, stack: expect.stringContaining('    at ') });
  });
});
