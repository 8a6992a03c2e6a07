import { Readable } from 'node:stream';
import {
  BadRequestException,
  Body,
  type CallHandler,
  ClassSerializerInterceptor,
  Controller,
  Delete,
  type ExecutionContext,
  Get,
  Header,
  HttpCode,
  HttpException,
  Logger,
  type MiddlewareConsumer,
  Module,
  type NestInterceptor,
  type NestModule,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Redirect,
  Res,
  StreamableFile,
  UploadedFile,
  UseInterceptors,
} from '@nestjs/common';
import { ExternalContextCreator } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { FileInterceptor } from '@nestjs/platform-express';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Transform, Type } from 'class-transformer';
import { IsInt, IsObject, IsString, Min, ValidateNested } from 'class-validator';
import { json, type Response } from 'express';
import { map } from 'rxjs';
import { Column, Entity, PrimaryGeneratedColumn, Repository } from 'typeorm';
import { Public } from '../../src/auth/public.decorator.js';
import { ApiError, ERRORS } from '../../src/errors/api-error.js';
import { NoSessionError } from '../../src/errors/database-error.js';
import { ErrorFilter } from '../../src/errors/error.filter.js';
import { BodyBytes } from '../../src/http/body.guard.js';
import { JsonText } from '../../src/http/express-classes.js';
import { MayBeOmitted } from '../../src/validation/decorators.js';
import { expectError } from '../support/answers.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

const SECRET = 'select secret from innards';
const ATTACHMENT = 'attachment; filename="boxes.csv"';
const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };
/** What an operation on pets returns. */
const PAGE = '[{"id":-9223372036854775808,"name":"\\"é","weight":1.10}]';

/** An Error that says nothing for clients, with these properties. */
const secretError = (properties: object) => Object.assign(new Error(SECRET), properties);

/** What is thrown becomes internal_error, and is only logged. */
const INTERNAL: [string, unknown][] = [
  ['what is no Error', SECRET],
  ['nothing', undefined],
  ['an object with the shape of an Error', { code: 'pet_not_found', message: SECRET, status: 404 }],
  ['an Error with a status and headers', secretError({ status: 400, headers: { 'X-A': SECRET } })],
  ['an Error with the status of a response of others', secretError({ statusCode: 404 })],
  ['one that says not to tell it', secretError({ statusCode: 400, expose: false })],
  ['a failed statement', secretError({ code: '42601', detail: SECRET })],
  ['an HttpException of 500', new HttpException({ detail: SECRET }, 500)],
  ['an HttpException below 400', new HttpException(SECRET, 302)],
];

const refused = new NoSessionError(
  new AggregateError(['::1', '127.0.0.1'].map((address) => new Error(`refused by ${address}`))),
);

/** What is thrown, and the code and message that the client gets. */
const TOLD: [unknown, number, string, string?][] = [
  [new ApiError('pet_not_found', 'No.'), 404, 'pet_not_found'],
  [refused, 503, 'unavailable', 'The database cannot serve the request now; try again.'],
  [new BadRequestException(['1', '2']), 400, 'invalid_request', '1; 2'],
  [new HttpException({ message: 'No.', SECRET }, 401), 401, 'invalid_api_key'],
  [new HttpException('No.', 404), 404, 'not_found'],
  [new HttpException('No.', 409), 409, 'conflict'],
  [new HttpException('No.', 422), 422, 'unprocessable_entity'],
  [new HttpException('No.', 502), 502, 'bad_gateway'],
  // As of Express's middlewares.
  [Object.assign(new Error('No.'), { statusCode: 413, expose: true }), 413, 'payload_too_large'],
];

/** What the handlers throw. */
let fault: unknown;

class Labelled {
  @IsString()
  label!: string;
}

class Item extends Labelled {
  @IsInt()
  @Min(1)
  count!: number;
}

/** It has no validators. */
class Owner {
  name?: string;

  @Type(() => Owner)
  friends?: Set<Owner>;
}

/** It is made of what was sent, and not without. */
class Size {
  readonly volume: number;

  constructor({ edges }: { edges: number[] }) {
    this.volume = edges.reduce((product, edge) => product * edge, 1);
  }
}

class NewBox extends Labelled {
  @ValidateNested({ each: true })
  @Type(() => Item)
  items!: Item[];

  @MayBeOmitted()
  @Type(() => Owner)
  owner?: Owner;

  @MayBeOmitted()
  @IsObject()
  extras?: object;

  @MayBeOmitted()
  @Transform(({ value }) => new Size(value))
  size?: Size;

  @MayBeOmitted()
  @IsString()
  note?: string;
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

@Entity('crates')
class Crate {
  @PrimaryGeneratedColumn('identity', { type: 'bigint' })
  id!: string;

  @Column('text')
  label!: string;
}

/** A controller as a NestJS engineer writes it, without knowledge of this service. */
@Controller('boxes')
class BoxesController {
  constructor(@InjectRepository(Crate) private readonly crates: Repository<Crate>) {}

  @Post('crates')
  async createCrate(@Body('label') label: string) {
    await this.crates.save({ label });
    return this.crates.findBy({ label });
  }

  @Post('photo')
  @UseInterceptors(FileInterceptor('photo', { limits: { fileSize: 100_000 } }))
  upload(@UploadedFile() photo: Express.Multer.File, @Body() { label }: Labelled) {
    return { label, name: photo.originalname, bytes: photo.size };
  }

  @Get('rejected')
  reject() {
    return Promise.reject(fault);
  }

  @Get('failed-file')
  failFile(@Res({ passthrough: true }) response: Response) {
    response.set({ 'Content-Disposition': ATTACHMENT, 'Cache-Control': 'public' });
    response.set({ 'Content-Encoding': 'gzip', 'Transfer-Encoding': 'chunked' });
    throw new ApiError('pet_not_found', 'No.');
  }

  @Get('written')
  write(@Res() response: Response) {
    response.status(202).json({ written: true, id: 9007199254740993n });
  }

  @Get('failed-after/:call')
  failAfter(@Param('call') call: 'write' | 'end', @Res() response: Response) {
    response[call]('text');
    throw new Error(SECRET);
  }

  @Get('open')
  @Public()
  open() {
    return { isOpen: true };
  }

  @Get('bigint')
  bigint() {
    return { id: 9223372036854775807n, at: new Date(0) };
  }

  @Get('file')
  file() {
    return new StreamableFile(Readable.from(['one,', 'two']), {
      type: 'text/csv',
      disposition: ATTACHMENT,
    });
  }

  @Post()
  @BodyBytes(1_000_000)
  create(@Body() box: NewBox) {
    const isItem = box.items.map((item) => item instanceof Item);
    const friends = box.owner?.friends && [...box.owner.friends];
    return { isBox: box instanceof NewBox, isItem, box, friends };
  }

  @Post('parsed')
  parsed(@Body() { label }: Labelled) {
    return { label };
  }

  @Delete(':id')
  @HttpCode(204)
  remove(@Param('id', ParseIntPipe) _id: number) {}

  @Get('moved')
  @Redirect('/v1/pets', 301)
  moved() {}

  @Get('wrapped')
  @Header('X-Box', 'yes')
  @UseInterceptors(Wrapped)
  wrapped() {
    return new JsonText(PAGE);
  }

  @Get('serialized')
  @UseInterceptors(ClassSerializerInterceptor)
  serialized() {
    return new JsonText(PAGE);
  }

  @Get('listed')
  list(@Query() { page }: BoxQuery, @Query('tag') tags?: string[]) {
    return { page, tags };
  }
}

@Module({ imports: [TypeOrmModule.forFeature([Crate])], controllers: [BoxesController] })
class BoxesModule implements NestModule {
  configure(consumer: MiddlewareConsumer) {
    consumer.apply(json()).forRoutes('boxes/parsed');
  }
}

describe('a module that is added to the application', () => {
  const service = serviceOfTests({ RATE_LIMIT_PER_MINUTE: '1000' }, undefined, {
    modules: [BoxesModule],
    // A broken file must be noticed before.
    limits: { socketTimeout: 600_000 },
  });
  beforeEach(() => {
    service.log.length = 0;
  });
  afterEach(() => service.api.get('/v1/pets').expect(200));
  const logged = () => service.log.map((line) => JSON.parse(line));
  const rejected = (error: unknown) => {
    fault = error;
    return service.api.get('/boxes/rejected');
  };

  it.each(INTERNAL)('responds internal_error, and logs %s', async (_what, error) => {
    const answer = await rejected(error);
    expectError(answer, 500, 'internal_error');
    expect(answer.body.message).toBe('The service failed; the fault is ours.');
    expect(JSON.stringify(answer.headers)).not.toContain('secret');
    expect(logged().map(({ level }) => level)).toEqual(['error', 'info']);
  });

  it('can have a handler that needs no API key', async () => {
    await service.anonymous.get('/boxes/open').expect(200, { isOpen: true });
    expectError(await service.anonymous.get('/boxes/bigint'), 401, 'missing_api_key');
  });

  it('may read bodies by a middleware of its own', async () => {
    const post = (body: object | string) =>
      service.api.post('/boxes/parsed').set(JSON_TYPE).send(body);
    expect((await post({ label: 'a', more: 1 }).expect(201)).body).toEqual({ label: 'a' });
    expectError(await post({ label: 1 }), 400, 'invalid_request', ['label: must be a string']);
    expectError(await post('{'), 400, 'invalid_request');
  });

  it.each(TOLD)('responds to %p with %i %s', async (error, status, code, message = 'No.') => {
    const answer = await rejected(error);
    expectError(answer, status, code);
    expect(answer.body.message).toBe(message);
    const { headers = {} } = Object(Object(ERRORS)[code]);
    for (const name of ['Retry-After', ...Object.keys(headers)]) {
      expect(answer.headers[name.toLowerCase()]).toBe(headers[name]);
    }
  });

  it('has the stack of an error in the log, and the reason of a 503, once, with its request', async () => {
    await rejected(new Error(SECRET)).set('X-Request-Id', 'one').expect(500);
    await rejected(refused).set('X-Request-Id', 'two').expect(503);
    const err = { message: SECRET, stack: expect.stringContaining('    at ') };
    const reason = 'refused by ::1; refused by 127.0.0.1';
    expect(logged()).toMatchObject([
      { level: 'error', request: 'one', err },
      { msg: 'request', request: 'one' },
      { level: 'warn', request: 'two', reason, msg: 'A request was rejected with 503' },
      { msg: 'request', request: 'two' },
    ]);
    // What terminus throws if an indicator is down, and a response with an object of another status.
    const details = { status: 'error', error: { disk: { status: 'down' } } };
    for (const status of [503, 500, 504]) {
      await rejected(new HttpException(details, status)).expect(status);
    }
    expect(
      logged()
        .filter(({ msg }) => msg !== 'request')
        .slice(2),
    ).toMatchObject([
      { level: 'warn', cause: 'other', details },
      { level: 'error', err: { response: details } },
      { level: 'error', err: { response: details } },
    ]);
    expect(Object.keys(logged()[2])).toEqual([
      'level',
      'time',
      'request',
      'cause',
      'reason',
      'msg',
    ]);
  });

  it("has in the log what it tells Nest's Logger, at its level", () => {
    const logger = new Logger('Boxes');
    const levels = { fatal: 'fatal', error: 'error', warn: 'warn', log: 'debug', debug: 'debug' };
    for (const [method, level] of Object.entries({ ...levels, verbose: 'trace' })) {
      logger[method as 'log'](`a ${method}`);
      expect(logged().at(-1)).toMatchObject({ level, msg: `a ${method}`, context: 'Boxes' });
    }
    logger.error(new Error('failed'));
    expect(logged().at(-1).err.stack).toContain('    at ');
  });

  it("has in the log the fields of an object that it tells Nest's Logger, without a value of a body", () => {
    const error = secretError({ code: '23505', detail: 'needle', where: 'needle' });
    const box = { id: 7n, at: new Date(0), items: [{ count: 2 }], error };
    const fields = { id: 7, at: '1970-01-01T00:00:00.000Z', items: [{ count: 2 }] };
    const details = [{ ...fields, error: { message: SECRET, code: '23505' } }];
    new Logger('Boxes').warn(box);
    expect(logged().at(-1)).toMatchObject({ level: 'warn', context: 'Boxes', details });
    new Logger().error('It failed', box);
    expect(logged().at(-1)).toMatchObject({ level: 'error', msg: 'It failed', details });
    expect(service.log.join('')).not.toMatch(/needle|object Object/);
  });

  it('is logged as failed also if its client, whose request was complete, has left', () => {
    const client = { destroyed: true, complete: true };
    const response = { headersSent: true, getHeader: () => 'one', destroy: jest.fn() };
    const host = new ExecutionContextHost([client, response]);
    service.get(ErrorFilter).catch(new Error(SECRET), host);
    expect(logged()).toMatchObject([{ level: 'error', request: 'one', err: { message: SECRET } }]);
    expect(response.destroy).toHaveBeenCalled();
  });

  it('can fail while or after it responds: half a response is not taken for a whole one', async () => {
    await service.api.get('/boxes/failed-after/end').expect(200).expect('Content-Length', '4');
    const half = service.api.get('/boxes/failed-after/write');
    await expect(half).rejects.toThrow(/aborted|hang up/);
    const errors = () => logged().filter(({ level }) => level === 'error').length;
    await until('both are logged', () => errors() === 2);
    const { status, headers } = await service.api.get('/boxes/failed-file');
    expect([status, headers['cache-control']]).toEqual([404, 'no-store']);
    expect(Object.keys(headers)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/disposition|encoding/)]),
    );
  });

  it.each<[path: string, text: string, headers: object, status?: number]>([
    ['written', '{"written":true,"id":9007199254740993}', JSON_TYPE, 202],
    ['bigint', '{"id":9223372036854775807,"at":"1970-01-01T00:00:00.000Z"}', JSON_TYPE],
    ['file', 'one,two', { 'content-type': 'text/csv', 'content-disposition': ATTACHMENT }],
    ['wrapped', `{"data":${PAGE}}`, { ...JSON_TYPE, 'x-box': 'yes' }],
    ['serialized', PAGE, JSON_TYPE],
    ['listed?page=3', '{"page":3}', JSON_TYPE],
    ['listed?tag=a&tag=&tag=b', '{"page":1,"tags":["a","","b"]}', JSON_TYPE],
  ])('can respond as Nest can, int64s in digits: %s', async (path, text, headers, status = 200) => {
    expect(await service.api.get(`/boxes/${path}`)).toMatchObject({ status, text, headers });
    expect(logged()).toMatchObject([{ level: 'info', msg: 'request', status }]);
    expect(service.admitted()).toBe(0);
  });

  it('takes bodies as nested DTOs, and names each field that is wrong', async () => {
    const create = (box: object) => service.api.post('/boxes').send(box);
    const box = { label: 'a', items: [{ label: 'x', count: 2 }] };
    await create(box).expect(201, { isBox: true, isItem: [true], box });
    // What a DTO does not declare never reaches a repository that saves it.
    const more = { id: 1, box: { id: 1 } };
    const items = box.items.map((item) => ({ ...item, ...more, box: more }));
    const owner = { name: 'Eve', ...more, friends: [{ name: 'Max', ...more }] };
    const all = await create({ ...box, ...more, items, owner, extras: more }).expect(201);
    expect(all.body).toEqual({
      isBox: true,
      isItem: [true],
      box: { ...box, extras: more, owner: { name: 'Eve', friends: {} } },
      friends: [{ name: 'Max' }],
    });
    const sized = await create({ ...box, size: { edges: [2, 3, 4] } }).expect(201);
    expect(sized.body.box.size).toEqual({ volume: 24 });
    // Its own limit in place of that of all.
    const larger = { ...box, note: 'a'.repeat(900_000) };
    await create(larger).expect(201);
    // Also in more chunks than others may have.
    const chunks = JSON.stringify(larger).match(/.{1,500}/g)!;
    const sent = [...chunks, ''].map((one) => `${one.length.toString(16)}\r\n${one}\r\n`);
    const headers = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
    const head = request('POST /boxes', [`Authorization: Bearer ${service.key}`, ...headers]);
    expect(await exchange(service.port, head + sent.join(''))).toMatchObject({ status: 201 });
    expectError(await create({ note: 'a'.repeat(1_000_000) }), 413, 'payload_too_large');
    const wrong = await create({ items: [{ label: 'x', count: 0 }, 1], note: null });
    expectError(wrong, 400, 'invalid_request');
    expect(wrong.body.message).toBe(
      'items.0.count: must not be less than 1; items.1: each value in nested property items must be either object or array; note: must be a string; label: must be a string',
    );
  });

  it('rejects a larger body with 413 too if it comes in too many chunks', async () => {
    const fields = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const head = request('POST /boxes', [...fields, 'Transfer-Encoding: chunked']);
    // One more than a 64th of the bytes that it may have.
    const text = `${head}1\r\n{\r\n${'1\r\n \r\n'.repeat(16_000)}`;
    expectError(await exchange(service.port, text), 413, 'payload_too_large');
  });

  it('can use the repository of an entity that only its own module names', async () => {
    await service.query(
      'create table crates (id bigint generated by default as identity primary key, label text)',
    );
    const expected = [{ id: '1', label: 'a' }];
    await service.api.post('/boxes/crates').send({ label: 'a' }).expect(201, expected);
  });

  it('can receive files and the fields beside them, of its own size, after the guard', async () => {
    const upload = (agent = service.api, path = '/boxes/photo', bytes = 50_000) =>
      agent.post(path).attach('photo', Buffer.alloc(bytes), 'rex.png');
    const uploaded = { label: 'Rex', name: 'rex.png', bytes: 50_000 };
    await upload().field('label', 'Rex').expect(201, uploaded);
    expectError(await upload(), 400, 'invalid_request', ['label']);
    expectError(await upload(service.anonymous), 401, 'missing_api_key');
    expectError(await upload(service.api, '/boxes/photo', 100_001), 413, 'payload_too_large');
    expectError(await upload(service.api, '/v1/pets'), 415, 'unsupported_media_type');
  });

  it('gets no broken or unfinished file, and the client a 400 that is no error of the service', async () => {
    const type = 'Content-Type: multipart/form-data; boundary=b';
    const head = (framing: string) =>
      request('POST /boxes/photo', [`Authorization: Bearer ${service.key}`, type, framing]);
    const broken = `${head('Transfer-Encoding: chunked')}3\r\n--b\r\nz`;
    expectError(await exchange(service.port, broken), 400, 'invalid_request');
    const connection = await RawConnection.open(service.port);
    connection.send(`${head('Content-Length: 100')}--b\r\n`);
    await until('it is in its handler', async () => service.admitted() === 1);
    connection.vanish();
    await until('it has left', async () => service.admitted() === 0);
    await until('both are logged', async () => logged().length >= 2);
    expect(logged().map(({ level }) => level)).toEqual(['info', 'info']);
  });

  it.each(['graphql', 'rpc', 'ws'])(
    'can have handlers of another context: %s has no request, so no guard of HTTP looks at it, and an error is its own',
    async (type) => {
      const boxes = service.get(BoxesController);
      const call = (name: 'bigint' | 'reject') => {
        const creator = service.get(ExternalContextCreator);
        const none = undefined;
        return creator.create(boxes, boxes[name], name, none, none, none, none, none, type);
      };
      expect(await call('bigint')()).toEqual(boxes.bigint());
      fault = new Error('of its own');
      await expect(call('reject')()).rejects.toBe(fault);
      const [{ level, err }] = logged();
      expect([level, err.message]).toEqual(['error', 'of its own']);
    },
  );

  it('can use pipes for its parameters, class-validator for its query, redirects, and a status; Allow has its methods', async () => {
    expectError(await service.api.delete('/boxes/x'), 400, 'invalid_request', ['numeric']);
    expectError(await service.api.get('/boxes/listed?page=x'), 400, 'invalid_request', ['page']);
    await service.api.get('/boxes/moved').expect(301).expect('Location', '/v1/pets');
    await service.api.delete('/boxes/1').expect(204);
    await service.api.put('/boxes/1').expect(405).expect('Allow', 'DELETE, OPTIONS');
    // Two routes match it.
    const allow = 'DELETE, GET, HEAD, OPTIONS';
    await service.api.put('/boxes/bigint').expect(405).expect('Allow', allow);
  });
});
