import { Readable } from 'node:stream';
import {
  BadGatewayException,
  BadRequestException,
  Body,
  type CallHandler,
  Controller,
  Delete,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Header,
  HttpCode,
  HttpException,
  Logger,
  Module,
  type NestInterceptor,
  NotFoundException,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Redirect,
  Res,
  ServiceUnavailableException,
  StreamableFile,
  UnauthorizedException,
  UseInterceptors,
} from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsInt, IsNumber, IsOptional, IsString, Max, Min, ValidateNested } from 'class-validator';
import type { Response } from 'express';
import { map } from 'rxjs';
import { Public } from '../../src/auth/public.decorator.js';
import { ApiError } from '../../src/errors/api-error.js';
import { ERRORS } from '../../src/errors/errors.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const SECRET = 'select secret from innards';
const loop: { self?: unknown } = {};
loop.self = loop;

/** An Error that says nothing for clients, with these properties. */
const secretError = (properties: object) => Object.assign(new Error(SECRET), properties);

/** What is thrown becomes internal_error, and is only logged. */
const INTERNAL: [string, unknown][] = [
  ['null', null],
  ['undefined', undefined],
  ['a string', SECRET],
  ['a number', 404],
  ['a bigint', 1n],
  ['a symbol', Symbol(SECRET)],
  ['a function', () => SECRET],
  ['an object with the shape of an Error', { code: 'pet_not_found', message: SECRET, status: 404 }],
  ['an object without a prototype', Object.create(null)],
  ['an object that holds itself', loop],
  ['a Promise', Promise.resolve(SECRET)],
  ['an Error', new Error(SECRET)],
  ['an Error without a message', new Error()],
  ['an Error with .status', secretError({ status: 400 })],
  ['an Error with .statusCode', secretError({ statusCode: 404 })],
  ['an Error with .headers', secretError({ headers: { 'X-Secret': SECRET } })],
  ['an AggregateError', new AggregateError([new Error(SECRET)], SECRET)],
  ['a failed statement', secretError({ code: '42601', detail: SECRET })],
  ['an HttpException of 500', new HttpException({ detail: SECRET }, 500)],
  ['an HttpException of 302', new HttpException(SECRET, 302)],
  ['an HttpException of 1000', new HttpException(SECRET, 1000)],
  ['an HttpException of no status', new HttpException(SECRET, NaN)],
];

const REFUSALS = ['::1', '127.0.0.1'].map((address) => new Error(`refused by ${address}`));
const AWAY = 'The database cannot be reached; try again.';

/** What is thrown, and the code and message that the client gets. */
const TOLD: [string, unknown, number, string, string?][] = [
  ['an ApiError', new ApiError('pet_not_found', 'No.'), 404, 'pet_not_found'],
  ['one with a cause', new ApiError('unavailable', 'No.', { cause: loop }), 503, 'unavailable'],
  ['a refused connection', secretError({ code: 'ECONNREFUSED' }), 503, 'unavailable', AWAY],
  [
    'a connection that several addresses refused',
    Object.assign(new AggregateError(REFUSALS), { code: 'ECONNREFUSED' }),
    503,
    'unavailable',
    AWAY,
  ],
  ['a 400', new BadRequestException('No.'), 400, 'invalid_request'],
  ['a 400 with a list', new BadRequestException(['1', '2']), 400, 'invalid_request', '1; 2'],
  [
    'a 400 without',
    new BadRequestException({ SECRET }),
    400,
    'invalid_request',
    'Bad Request Exception',
  ],
  ['a 401', new UnauthorizedException('No.'), 401, 'invalid_api_key'],
  ['a 403', new ForbiddenException('No.'), 403, 'forbidden'],
  ['a 404', new NotFoundException({ message: 'No.', SECRET }), 404, 'route_not_found'],
  ['a 418', new HttpException('No.', 418), 418, 'i_m_a_teapot'],
  ['a 502', new BadGatewayException('No.'), 502, 'bad_gateway'],
  ['a 503', new ServiceUnavailableException('No.'), 503, 'unavailable'],
  [
    "an error of Express's middlewares",
    Object.assign(new Error('No.'), { statusCode: 413, expose: true }),
    413,
    'payload_too_large',
  ],
];

const THROWN = [...INTERNAL, ...TOLD].map(([title, error]) => ({ title, error }));

class Item {
  @IsString()
  label!: string;

  @IsInt()
  @Min(1)
  @Max(9)
  count!: number;
}

class NewBox {
  @IsString()
  name!: string;

  @IsNumber()
  weight!: number;

  @ValidateNested({ each: true })
  @Type(() => Item)
  items!: Item[];

  @ValidateNested()
  @Type(() => Item)
  @IsOptional()
  lid?: Item;
}

class BoxQuery {
  @IsInt()
  @Type(() => Number)
  page = 1;
}

class Wrapped implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** A controller as a NestJS engineer writes it, without knowledge of this service. */
@Controller('boxes')
class BoxesController {
  @Get('thrown/:index')
  throwIt(@Param('index', ParseIntPipe) index: number) {
    throw THROWN[index]!.error;
  }

  @Get('rejected/:index')
  reject(@Param('index', ParseIntPipe) index: number) {
    return Promise.reject(THROWN[index]!.error);
  }

  @Get('written')
  write(@Res() response: Response) {
    response.status(202).json({ written: true, id: 9007199254740993n });
  }

  @Get('written-then-thrown')
  writeAndThrow(@Res() response: Response) {
    response.json({ written: true });
    throw new Error(SECRET);
  }

  @Get('half-written')
  writeHalf(@Res() response: Response) {
    response.write('half');
    throw new Error(SECRET);
  }

  @Get('bigint')
  bigint() {
    return { id: 9223372036854775807n, inside: [{ least: -(2n ** 63n) }], at: new Date(0) };
  }

  @Get('circular')
  circular() {
    return loop;
  }

  @Get('text')
  @Header('Content-Type', 'text/plain; charset=utf-8')
  text() {
    return 'plain';
  }

  @Get('file')
  file() {
    return new StreamableFile(Readable.from(['one,', 'two']), {
      type: 'text/csv',
      disposition: 'attachment; filename="boxes.csv"',
    });
  }

  @Get('lost-file')
  lostFile() {
    const lost: Readable = new Readable({ read: () => lost.destroy(new Error(SECRET)) });
    return new StreamableFile(lost);
  }

  @Post()
  create(@Body() box: NewBox) {
    const isItem = box.items.map((item) => item instanceof Item);
    return { isBox: box instanceof NewBox, isItem, box };
  }

  @Post('actions')
  @HttpCode(204)
  act() {}

  @Post('plain')
  plain(@Body() body: unknown, @Body('name') name: string) {
    return { body, name };
  }

  @Delete(':id')
  @HttpCode(204)
  remove(@Param('id') _id: string) {}

  @Get('moved')
  @Redirect('/v1/pets', 301)
  moved() {}

  @Get('listed')
  list(@Query() { page }: BoxQuery) {
    return { page };
  }

  @Get('wrapped')
  @Header('X-Box', 'yes')
  @UseInterceptors(Wrapped)
  wrapped() {
    return [1];
  }
}

@Public()
@Controller('open-boxes')
class OpenBoxesController {
  @Post()
  create(@Body() box: NewBox) {
    return box.name;
  }
}

@Module({ controllers: [BoxesController, OpenBoxesController] })
class BoxesModule {}

describe('a module that is added to the application', () => {
  const service = serviceOfTests({ METRICS_PORT: '0', CORS_ORIGINS: '*' }, undefined, {
    modules: [BoxesModule],
  });
  beforeEach(() => {
    service.log.length = 0;
  });
  afterEach(() => service.api.get('/v1/pets').expect(200));

  const logged = () => service.log.map((line) => JSON.parse(line));
  const thrown = (title: string, how = 'thrown') =>
    service.api.get(`/boxes/${how}/${THROWN.findIndex((one) => one.title === title)}`);
  const box = {
    name: 'a',
    weight: 1.5,
    items: [{ label: 'x', count: 2 }],
    lid: { label: 'y', count: 9 },
  };

  describe.each(['thrown', 'rejected'])('whose exception is %s', (how) => {
    it.each(INTERNAL)('responds internal_error, and only logs %s', async (title) => {
      const answer = await thrown(title, how);
      expectError(answer, 500, 'internal_error');
      expect(answer.body.message).toBe('The service failed; the fault is ours.');
      expect(JSON.stringify(answer.headers)).not.toContain('secret');
      expect(logged().map(({ level }) => level)).toEqual(['error', 'info']);
    });

    it.each(TOLD)('responds to %s as it says', async (title, _e, status, code, message = 'No.') => {
      const answer = await thrown(title, how);
      expectError(answer, status, code);
      expect(answer.body.message).toBe(message);
      const { headers = {} } = Object(Object(ERRORS)[code]);
      for (const [name, value] of Object.entries<string>(headers)) {
        expect(answer.headers[name.toLowerCase()]).toBe(value);
      }
    });
  });

  it('has the stack of an error in the log', async () => {
    await thrown('an Error').expect(500);
    expect(logged().find(({ level }) => level === 'error').err).toMatchObject({
      message: SECRET,
      stack: expect.stringContaining('    at '),
    });
  });

  it('has the reason of a 503 in the log, once', async () => {
    await thrown('a connection that several addresses refused').expect(503);
    expect(logged()[0]).toEqual({
      level: 'warn',
      time: expect.any(String),
      request: expect.any(String),
      reason: 'refused by ::1; refused by 127.0.0.1',
      msg: 'A request was rejected with 503',
    });
  });

  it("has in the log what it tells Nest's Logger, at its level", () => {
    const logger = new Logger('Boxes');
    const levels = { fatal: 'fatal', error: 'error', warn: 'warn', log: 'debug', debug: 'debug' };
    for (const [method, level] of Object.entries({ ...levels, verbose: 'trace' })) {
      logger[method as 'log'](`a ${method}`);
      expect(logged().at(-1)).toMatchObject({ level, msg: `a ${method}`, context: 'Boxes' });
    }
  });

  it('can use ParseIntPipe', async () => {
    expectError(await service.api.get('/boxes/thrown/x'), 400, 'invalid_request', ['numeric']);
  });

  it('can write its response itself, on a connection that is used again; it is logged', async () => {
    const connection = await RawConnection.open(service.port);
    for (let i = 0; i < 2; i += 1) {
      connection.send(request('GET /boxes/written', [`Authorization: Bearer ${service.key}`]));
      const text = '{"written":true,"id":9007199254740993}';
      expect(await connection.answer()).toMatchObject({ status: 202, text });
    }
    connection.vanish();
    const line = { route: '/boxes/written', status: 202 };
    expect(logged()).toMatchObject([line, line]);
    expect(service.admitted()).toBe(0);
  });

  it('can fail after its response, which stays the only one', () =>
    service.api.get('/boxes/written-then-thrown').expect(200, { written: true }));

  it('cannot have half a response taken for a whole one', () =>
    expect(service.api.get('/boxes/half-written')).rejects.toThrow(/aborted|hang up/));

  it('can return bigints, which are written in digits', async () => {
    const { text, headers } = await service.api.get('/boxes/bigint').expect(200);
    expect(text).toBe(
      '{"id":9223372036854775807,"inside":[{"least":-9223372036854775808}],"at":"1970-01-01T00:00:00.000Z"}',
    );
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
  });

  it('gets internal_error for a result that JSON cannot have', async () =>
    expectError(await service.api.get('/boxes/circular'), 500, 'internal_error'));

  it('can return text and files', async () => {
    const text = await service.api.get('/boxes/text').expect(200, 'plain');
    expect(text.headers['content-type']).toBe('text/plain; charset=utf-8');
    const file = await service.api.get('/boxes/file').expect(200, 'one,two');
    expect(file.headers).toMatchObject({
      'content-type': 'text/csv',
      'content-disposition': 'attachment; filename="boxes.csv"',
    });
    const lost = await service.api.get('/boxes/lost-file').catch((error) => error);
    expect(lost.status ?? 500).toBeGreaterThanOrEqual(400);
  });

  it('can take nested DTOs and arrays, whose numbers are numbers', async () => {
    const expected = { isBox: true, isItem: [true], box };
    await service.api.post('/boxes').send(box).expect(201, expected);
    await service.anonymous.post('/open-boxes').send(box).expect(201, 'a');
  });

  it.each([
    [
      '/boxes',
      { weight: '1', items: [{ label: 'x', count: 0 }, 1], lid: {} },
      [
        'name: must be a string',
        'weight: must be a number conforming to the specified constraints',
        'items.0.count: must not be less than 1',
        'items.1: each value in nested property items must be either object or array',
        'lid.label: must be a string',
        'lid.count: must not be greater than 9',
      ],
    ],
    [
      '/v1/pets',
      { status: null },
      [
        'name: must be a string of 1 to 255 characters, not only white space, without U+0000 and lone surrogates',
        'categoryId: must be an integer from -9223372036854775808 to 9223372036854775807',
        'status: must be one of available, pending, sold',
      ],
    ],
    [
      '/v1/pets?limit=0&status=x&cursor=y',
      undefined,
      [
        'limit: must be a whole number from 1 to 100, sent once, in plain digits',
        'status: must be one of available, pending, sold, sent once',
        'cursor: must be one that this service issued, sent once',
      ],
    ],
  ])(
    'has errors that name each field of %s first, and that "; " separates',
    async (path, body, errors) => {
      const { api } = service;
      const answer = await (body === undefined ? api.get(path) : api.post(path).send(body));
      expectError(answer, 400, 'invalid_request');
      expect(answer.body.message.split('; ')).toEqual(errors);
    },
  );

  it('takes bodies only after the guard', async () => {
    const type = { 'Content-Type': 'application/json' };
    const { anonymous, api } = service;
    expectError(await anonymous.post('/boxes').send(box), 401, 'missing_api_key');
    expectError(await anonymous.post('/boxes').set(type).send('{'), 401, 'missing_api_key');
    expectError(await api.post('/boxes').set(type).send('{'), 400, 'invalid_json');
  });

  it('can take a body without a class, and a request without a body', async () => {
    const body = { name: 'a', n: [1] };
    await service.api.post('/boxes/plain').send(body).expect(201, { body, name: 'a' });
    await service.api.post('/boxes/actions').expect(204, '');
  });

  it('can validate its query by class-validator, with Type', async () => {
    await service.api.get('/boxes/listed?page=3').expect(200, { page: 3 });
    expectError(await service.api.get('/boxes/listed?page=x'), 400, 'invalid_request', ['page']);
  });

  it('can set status codes and headers, redirect, and map its result', async () => {
    await service.api.get('/boxes/moved').expect(301).expect('Location', '/v1/pets');
    await service.api
      .get('/boxes/wrapped')
      .expect(200, { data: [1] })
      .expect('X-Box', 'yes');
  });

  it('has its methods in Allow, in preflights and in the metrics', async () => {
    await service.api.delete('/boxes/1').expect(204);
    const other = await service.api.put('/boxes/1');
    expectError(other, 405, 'method_not_allowed');
    expect(other.headers['allow']).toBe('DELETE, OPTIONS');
    const headers = ['Origin: https://a.example', 'Access-Control-Request-Method: DELETE'];
    const preflight = await exchange(service.port, request('OPTIONS /boxes/1', headers));
    expect(preflight.headers['access-control-allow-methods']).toBe('DELETE, GET, HEAD, POST');
    const metrics = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    expect(await metrics.text()).toMatch(
      /http_requests_total\{operation="[^"]+",method="DELETE",status="204",code=""\} 1/,
    );
  });
});
