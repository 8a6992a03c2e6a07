import { connect } from 'node:net';
import { startService, type TestService } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('a service that is told to stop', () => {
  let service: TestService;
  beforeEach(async () => {
    service = await startService();
  });

  it('answers the request under way and closes every other connection at once', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const silent = await RawConnection.open(service.port);
    const idle = await RawConnection.open(service.port);
    idle.send(request('GET /v1/pets', headers));
    await idle.answer();
    const busy = await RawConnection.open(service.port);
    const bytes = request('POST /v1/pets', headers, '{"name":"Rex","categoryId":1}');
    busy.send(bytes.slice(0, -1));
    // Its headers have been read once a later request on another connection is answered.
    idle.send(request('GET /v1/pets', headers));
    await idle.answer();

    const stopped = service.stop();
    expect(await silent.rest()).toBe('');
    expect(await idle.rest()).toBe('');
    busy.send(bytes.slice(-1));
    const { status, headers: last } = await busy.answer();
    expect([status, last['connection']]).toEqual([201, 'close']);
    expect(await busy.rest()).toBe('');
    await stopped;
  });

  it('waits no longer for one that takes no answers, after a CONNECT neither', async () => {
    service.limits.stopTimeout = 100;
    const { text } = await service.anonymous.get('/docs').set('Accept', 'text/html').expect(200);
    const [, source] = /src="([^"]+swagger-ui-bundle[^"]*)"/.exec(text)!;
    const bundle = new URL(source!, `${service.origin}/docs`).pathname;
    const socket = connect(service.port, '127.0.0.1').pause();
    socket.write(request(`GET ${bundle}`).repeat(8) + request('CONNECT x:1'));
    await service.anonymous.get('/health/live').expect(200);
    const start = performance.now();
    await service.stop();
    expect(performance.now() - start).toBeLessThan(service.limits.socketTimeout);
    socket.destroy();
  });
});
