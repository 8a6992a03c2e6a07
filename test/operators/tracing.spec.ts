import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { Project } from '../support/project.js';
import { RawConnection, request } from '../support/raw-http.js';

const FOLDER = join(PROJECT_ROOT, 'deploy/tracing');

type Span = Record<'traceId' | 'spanId' | 'parentSpanId' | 'name', string>;

const CALLER = '00f067aa0ba902b7';

// Skipped without the packages of deploy/tracing, which nothing else needs. .ci/test-on-node installs them, and then runs this
// on the Node of the image.
(existsSync(join(FOLDER, 'node_modules')) ? describe : describe.skip)('deploy/tracing', () => {
  const project = Project.ofTests();
  const spans: Span[] = [];
  const collector = createServer(async (message, response) => {
    const { resourceSpans } = (await json(message)) as any;
    spans.push(
      ...resourceSpans.flatMap((one: any) => one.scopeSpans.flatMap((it: any) => it.spans)),
    );
    response.setHeader('Content-Type', 'application/json').end('{}');
  });
  beforeAll(() => once(collector.listen(0, '127.0.0.1'), 'listening'));
  afterAll(() => collector.close());

  it("puts a request into its caller's trace, and a statement into that of its first request, and has none of probes and scrapes", async () => {
    const { port } = collector.address() as AddressInfo;
    const { base, key, program } = await project.serveEmbedded({
      NODE_OPTIONS: `--import=${join(FOLDER, 'tracing.mjs')}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      METRICS_PORT: '0',
    });
    const [, metrics] = await program.says(/"metrics":"([^"]+)"/);
    for (const address of [
      metrics!,
      new URL('/health/live', base),
      new URL('/health/ready', base),
    ]) {
      await (await fetch(address)).text();
    }
    const connection = await RawConnection.open(Number(new URL(base).port));
    const get = (path: string, digit: string) =>
      request(`GET /v1/pets${path}`, [
        `Authorization: Bearer ${key}`,
        `traceparent: 00-${digit.repeat(32)}-${CALLER}-01`,
      ]);
    connection.send(get('/1?key=needle', 'a'));
    await connection.answer();
    // In one packet: they share a statement.
    connection.send(get('', 'b') + get('', 'c'));
    await connection.answer();
    await connection.answer();
    connection.vanish();
    // It sends the last spans before it ends.
    expect((await program.end('SIGTERM')).code).toBe(0);
    expect(JSON.stringify(spans)).not.toContain('needle');
    const servers = spans.filter(({ name }) => name.startsWith('GET'));
    const nameOf = (parent: string) => servers.find(({ spanId }) => spanId === parent)?.name;
    const seen = spans.map(({ traceId, name, parentSpanId }) =>
      [traceId[0], name, nameOf(parentSpanId) ?? parentSpanId].join(' < '),
    );
    expect(seen.toSorted()).toEqual([
      `a < GET /v1/pets/:petId < ${CALLER}`,
      'a < pg.query:keys-by-hash postgres < GET /v1/pets/:petId',
      'a < pg.query:pets-by-id postgres < GET /v1/pets/:petId',
      `b < GET /v1/pets < ${CALLER}`,
      'b < pg.query:pets-pages postgres < GET /v1/pets',
      `c < GET /v1/pets < ${CALLER}`,
    ]);
  });
});
