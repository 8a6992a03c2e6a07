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
import { type ErrorCode, ERRORS } from '../../src/errors/errors.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const SECRET = 'select secret from innards';
const loop: { self?: unknown } = {};
loop.self = loop;

/** What is thrown becomes internal_error, and is only logged. */
const INTERNAL: [string, unknown][] = [
  ['null', null],
  ['undefined', undefined],
  ['a string', SECRET],
  ['a number', 404],
  ['NaN', NaN],
  ['a bigint', 1n],
  ['a symbol', Symbol(SECRET)],
  ['a function', () => SECRET],
  ['an object with the shape of an Error', { code: 'pet_not_found', message: SECRET, status: 404 }],
  ['an object without a prototype', Object.create(null)],
  ['an object that holds itself', loop],
  ['a Promise', Promise.resolve(SECRET)],
  ['an Error', new Error(SECRET)],
  ['an Error without a message', new Error()],
  ['an Error with .status', Object.assign(new Error(SECRET), { status: 400 })],
  ['an Error with .statusCode', Object.assign(new Error(SECRET), { statusCode: 404 })],
  ['an Error with .headers', Object.assign(new Error(SECRET), { headers: { 'X-Secret': SECRET } })],
  ['an AggregateError', new AggregateError([new Error(SECRET)], SECRET)],
  ['a failed statement', Object.assign(new Error(SECRET), { code: '42601', detail: SECRET })],
  ['an HttpException of 500', new HttpException({ detail: SECRET }, 500)],
  ['an HttpException of 302', new HttpException(SECRET, 302)],
  ['an HttpException of no status', new HttpException(SECRET, NaN)],
];

/** What is thrown, and the status, code and message that the client gets. */
const TOLD: [string, unknown, number, string, string][] = [
  [
    'an ApiError',
    new ApiError('pet_not_found', 'No such animal.'),
    404,
    'pet_not_found',
    'No such animal.',
  ],
  [
    'an ApiError with a cause',
    new ApiError('unavailable', 'Try again.', { cause: new Error(SECRET) }),
    503,
    'unavailable',
    'Try again.',
  ],
  [
    'a refused connection',
    Object.assign(new Error(SECRET), { code: 'ECONNREFUSED' }),
    503,
    'unavailable',
    'The database cannot be reached; try again.',
  ],
  [
    'a connection that several addresses refused',
    Object.assign(
      new AggregateError(['::1', '127.0.0.1'].map((at) => new Error(`refused by ${at}`))),
      { code: 'ECONNREFUSED' },
    ),
    503,
    'unavailable',
    'The database cannot be reached; try again.',
  ],
  ['a 400', new BadRequestException('No.'), 400, 'invalid_request', 'No.'],
  [
    'a 400 with a list',
    new BadRequestException(['No.', 'Nor.']),
    400,
    'invalid_request',
    'No.; Nor.',
  ],
  ['a 401', new UnauthorizedException('No.'), 401, 'invalid_api_key', 'No.'],
  ['a 403', new ForbiddenException('No.'), 403, 'forbidden', 'No.'],
  ['a 404', new NotFoundException('No box.'), 404, 'route_not_found', 'No box.'],
  [
    'a 404 with a body of its own',
    new NotFoundException({ message: ['No.'], more: SECRET }),
    404,
    'route_not_found',
    'No.',
  ],
  [
    'a 400 with a body without a message',
    new BadRequestException({ more: SECRET }),
    400,
    'invalid_request',
    'Bad Request',
  ],
  ['a 503', new ServiceUnavailableException('Soon.'), 503, 'unavailable', 'Soon.'],
  ['a 418', new HttpException('Short.', 418), 418, 'i_m_a_teapot', 'Short.'],
  ['a 502', new BadGatewayException('Later.'), 502, 'bad_gateway', 'Later.'],
  [
    "an error of Express's middlewares",
    Object.assign(new Error('No.'), { statusCode: 413, expose: true }),
    413,
    'payload_too_large',
    'No.',
  ],
];

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
    throw [...INTERNAL, ...TOLD][index]![1];
  }

  @Get('rejected/:index')
  reject(@Param('index', ParseIntPipe) index: number) {
    return Promise.reject([...INTERNAL, ...TOLD][index]![1]);
  }

  @Get('number/:n')
  number(@Param('n', ParseIntPipe) n: number) {
    return { n, type: typeof n };
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
    return {
      id: 9223372036854775807n,
      inside: [{ least: -9223372036854775808n }],
      at: new Date(0),
    };
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
    return new StreamableFile(
      new Readable({
        read() {
          this.destroy(new Error(SECRET));
        },
      }),
    );
  }

  @Post()
  create(@Body() box: NewBox) {
    return {
      isBox: box instanceof NewBox,
      isItem: box.items.map((item) => item instanceof Item),
      box,
    };
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

  const logged = () => service.log.map((line) => JSON.parse(line));
  const indexOf = (title: string) =>
    [...INTERNAL, ...TOLD].findIndex(([candidate]) => candidate === title);
  const box = {
    name: 'a',
    weight: 1.5,
    items: [{ label: 'x', count: 2 }],
    lid: { label: 'y', count: 9 },
  };

  describe.each(['thrown', 'rejected'])('whose exception is %s', (how) => {
    it.each(INTERNAL)('responds internal_error, and only logs %s', async (title) => {
      const answer = await service.api.get(`/boxes/${how}/${indexOf(title)}`);
      expectError(answer, 500, 'internal_error');
      expect(JSON.parse(answer.text).message).toBe('The service failed; the fault is ours.');
      expect(JSON.stringify(answer.headers)).not.toContain('secret');
      expect(logged().map(({ level }) => level)).toEqual(['error', 'info']);
    });

    it.each(TOLD)('responds to %s as it says', async (title, _error, status, code, message) => {
      const answer = await service.api.get(`/boxes/${how}/${indexOf(title)}`);
      expectError(answer, status, code, [message]);
      const { headers = {} } = Object(ERRORS[code as ErrorCode]);
      for (const [name, value] of Object.entries<string>(headers)) {
        expect(answer.headers[name.toLowerCase()]).toBe(value);
      }
    });
  });

  it('has the stack of an error in the log', async () => {
    await service.api.get(`/boxes/thrown/${indexOf('an Error')}`).expect(500);
    expect(logged().find(({ level }) => level === 'error').err).toMatchObject({
      message: SECRET,
      stack: expect.stringContaining('    at '),
    });
  });

  it('has the reason of a 503 in the log, once', async () => {
    const title = 'a connection that several addresses refused';
    await service.api.get(`/boxes/thrown/${indexOf(title)}`).expect(503);
    expect(logged()[0]).toEqual({
      level: 'warn',
      time: expect.any(String),
      request: expect.any(String),
      reason: 'refused by ::1; refused by 127.0.0.1',
      msg: 'A request was rejected with 503',
    });
  });

  it('can use ParseIntPipe', async () => {
    await service.api.get('/boxes/number/7').expect(200, { n: 7, type: 'number' });
    expectError(await service.api.get('/boxes/number/x'), 400, 'invalid_request', ['numeric']);
  });

  it('can write its response itself, on a connection that is used again; it is logged', async () => {
    const connection = await RawConnection.open(service.port);
    const bytes = request('GET /boxes/written', [`Authorization: Bearer ${service.key}`]);
    for (let i = 0; i < 2; i += 1) {
      connection.send(bytes);
      const answer = await connection.answer();
      expect(answer.status).toBe(202);
      expect(answer.text).toBe('{"written":true,"id":9007199254740993}');
    }
    connection.vanish();
    expect(logged()).toMatchObject([
      { route: '/boxes/written', status: 202 },
      { route: '/boxes/written', status: 202 },
    ]);
    expect(service.admitted()).toBe(0);
  });

  it('can fail after its response, which stays the only one', async () => {
    await service.api.get('/boxes/written-then-thrown').expect(200, { written: true });
    await service.api.get('/v1/pets').expect(200);
  });

  it('cannot have half a response taken for a whole one', async () => {
    await expect(service.api.get('/boxes/half-written')).rejects.toThrow(/aborted|hang up/);
    await service.api.get('/v1/pets').expect(200);
  });

  it('can return bigints, which are written in digits', async () => {
    const { text, headers } = await service.api.get('/boxes/bigint').expect(200);
    expect(text).toBe(
      '{"id":9223372036854775807,"inside":[{"least":-9223372036854775808}],"at":"1970-01-01T00:00:00.000Z"}',
    );
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
  });

  it('gets internal_error for a result that JSON cannot have', async () => {
    expectError(await service.api.get('/boxes/circular'), 500, 'internal_error');
    await service.api.get('/v1/pets').expect(200);
  });

  it('can return text and files', async () => {
    const text = await service.api.get('/boxes/text').expect(200);
    expect([text.text, text.headers['content-type']]).toEqual([
      'plain',
      'text/plain; charset=utf-8',
    ]);
    const file = await service.api.get('/boxes/file').expect(200);
    expect(file.text).toBe('one,two');
    expect(file.headers).toMatchObject({
      'content-type': 'text/csv',
      'content-disposition': 'attachment; filename="boxes.csv"',
    });
    const lost = await service.api.get('/boxes/lost-file').catch((error) => error);
    expect(lost.status ?? 500).toBeGreaterThanOrEqual(400);
    await service.api.get('/v1/pets').expect(200);
  });

  it('can take nested DTOs and arrays, whose numbers are numbers', async () => {
    await service.api
      .post('/boxes')
      .send(box)
      .expect(201, { isBox: true, isItem: [true], box });
    await service.anonymous.post('/open-boxes').send(box).expect(201, 'a');
    expectError(
      await service.api.post('/boxes').send({ ...box, items: [{ label: 1, count: 10 }] }),
      400,
      'invalid_request',
      ['items.0.label: must be a string', 'items.0.count: must not be greater than 9'],
    );
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
      const request =
        body === undefined ? service.api.get(path) : service.api.post(path).send(body);
      const answer = await request;
      expectError(answer, 400, 'invalid_request');
      expect(answer.body.message.split('; ')).toEqual(errors);
    },
  );

  it('takes bodies only after the guard', async () => {
    expectError(await service.anonymous.post('/boxes').send(box), 401, 'missing_api_key');
    const type = { 'Content-Type': 'application/json' };
    expectError(await service.anonymous.post('/boxes').set(type).send('{'), 401, 'missing_api_key');
    expectError(await service.api.post('/boxes').set(type).send('{'), 400, 'invalid_json');
  });

  it('can take a body without a class, and a request without a body', async () => {
    await service.api
      .post('/boxes/plain')
      .send({ name: 'a', n: [1] })
      .expect(201, { body: { name: 'a', n: [1] }, name: 'a' });
    await service.api.post('/boxes/actions').expect(204, '');
  });

  it('can validate its query by class-validator, with Type', async () => {
    await service.api.get('/boxes/listed?page=3').expect(200, { page: 3 });
    expectError(await service.api.get('/boxes/listed?page=x'), 400, 'invalid_request', ['page']);
  });

  it('can set status codes and headers, redirect, and map its result', async () => {
    const moved = await service.api.get('/boxes/moved').expect(301);
    expect(moved.headers['location']).toBe('/v1/pets');
    const wrapped = await service.api.get('/boxes/wrapped').expect(200, { data: [1] });
    expect(wrapped.headers['x-box']).toBe('yes');
  });

  it('has its methods in Allow, in preflights and in the metrics', async () => {
    await service.api.delete('/boxes/1').expect(204);
    const other = await service.api.put('/boxes/1');
    expectError(other, 405, 'method_not_allowed');
    expect(other.headers['allow']).toBe('DELETE, OPTIONS');
    const preflight = await exchange(
      service.port,
      request('OPTIONS /boxes/1', [
        'Origin: https://a.example',
        'Access-Control-Request-Method: DELETE',
      ]),
    );
    expect(preflight.headers['access-control-allow-methods']).toBe('DELETE, GET, HEAD, POST');
    const metrics = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    expect(await metrics.text()).toMatch(
      /http_requests_total\{operation="[^"]+",method="DELETE",status="204",code=""\} 1/,
    );
  });
});
