import { connect } from 'node:net';
import { Controller, Module, Post, UseInterceptors } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

@Controller('photos')
class PhotosController {
  @Post()
  @UseInterceptors(FileInterceptor('photo'))
  upload() {}
}

@Module({ controllers: [PhotosController] })
class PhotosModule {}

describe('where a client that takes nothing has two seconds', () => {
  const service = serviceOfTests({}, undefined, {
    modules: [PhotosModule],
    limits: {
      socketTimeout: 2_000,
      headersTimeout: 200,
      requestTimeout: 200,
      requestsPerConnection: 2_000,
    },
  });
  let list: string;
  beforeAll(async () => {
    await service.query(
      `insert into pets (name, category_id) select repeat('x', 255), 1 from generate_series(1, 100)`,
    );
    list = request('GET /v1/pets?limit=100', [`Authorization: Bearer ${service.key}`]);
  });

  it('one that does not read its responses is cut off', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    // More than the operating system holds for it.
    client.write(list.repeat(2_000));
    await until('it is connected', async () => (await service.connections()) === 1);
    // A paused socket does not see its end.
    await until('it is cut off', async () => (await service.connections()) === 0);
    client.destroy();
  });

  it('one that reads them slowly is not', async () => {
    const client = connect(service.port, '127.0.0.1').pause();
    const count = 150;
    client.write(list.repeat(count));
    const { text } = await exchange(service.port, list);
    let received = 0;
    client.on('data', (bytes) => {
      received += bytes.length;
      client.pause();
      setTimeout(() => client.resume(), 25);
    });
    client.resume();
    await until('it has all', () => received > count * text.length);
    client.destroy();
  });

  it('one that never sends anything is closed without a response and without a line in the log', async () => {
    const lines = service.log.length;
    const connection = await RawConnection.open(service.port);
    expect(await connection.rest()).toBe('');
    expect(service.log).toHaveLength(lines);
  });

  it('one that sends the rest of its request too late gets 408, and creates nothing, nor does what follows', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const bytes = request('POST /v1/pets', headers, '{"name":"Rex","categoryId":1}');
    const connection = await RawConnection.open(service.port);
    connection.send(bytes.slice(0, -1));
    expectError(await connection.answer(), 408, 'request_timeout');
    connection.send(bytes.slice(-1) + bytes);
    await until('it is logged', () => service.log.some((line) => line.includes('"status":408')));
    expect(await service.query(`select from pets where name = 'Rex'`)).toEqual([]);
    connection.vanish();
  });

  it('one that sends the rest of a file too late gets 408, which is no error of the service', async () => {
    const type = 'Content-Type: multipart/form-data; boundary=b';
    const headers = [`Authorization: Bearer ${service.key}`, type];
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /photos', headers, '--b\r\n\r\n--b--\r\n').slice(0, -4));
    expectError(await connection.answer(), 408, 'request_timeout');
    await connection.rest();
    await until('its place is free', () => service.admitted() === 0);
    expect(service.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    expect(service.log.at(-1)).toContain('"code":"request_timeout"');
  });
});
