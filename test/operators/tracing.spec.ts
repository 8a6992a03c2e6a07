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

/** OTLP's, as far as it is needed. */
interface Span {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
}
interface Export {
  resourceSpans: { scopeSpans: { spans: Span[] }[] }[];
}

const CALLER = '00f067aa0ba902b7';

// .ci/test-on-node installs its packages, for the Node of the image.
(existsSync(join(FOLDER, 'node_modules')) ? describe : describe.skip)('deploy/tracing', () => {
  const project = Project.ofTests();
  const spans: Span[] = [];
  const collector = createServer(async (message, response) => {
    const { resourceSpans } = (await json(message)) as Export;
    spans.push(
      ...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((one) => one.spans)),
    );
    response.setHeader('Content-Type', 'application/json').end('{}');
  });
  beforeAll(() => once(collector.listen(0, '127.0.0.1'), 'listening'));
  afterAll(() => collector.close());

  it("puts a request into its caller's trace, and a statement into that of its first request", async () => {
    const { port } = collector.address() as AddressInfo;
    const { base, key, program } = await project.serveEmbedded({
      NODE_OPTIONS: `--import=${join(FOLDER, 'tracing.mjs')}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    });
    const connection = await RawConnection.open(Number(new URL(base).port));
    const get = (path: string, trace: string) =>
      request(`GET /v1/pets${path}`, [
        `Authorization: Bearer ${key}`,
        `traceparent: 00-${trace}-${CALLER}-01`,
      ]);
    const [alone, first, second] = ['a', 'b', 'c'].map((digit) => digit.repeat(32));
    connection.send(get('/1', alone!));
    await connection.answer();
    // In one packet: they share a statement.
    connection.send(get('', first!) + get('', second!));
    await connection.answer();
    await connection.answer();
    connection.vanish();
    // It sends the last spans before it ends.
    expect((await program.end('SIGTERM')).code).toBe(0);
    const named = (trace?: string) =>
      spans.filter(({ traceId }) => traceId === trace).map(({ name }) => name);
    expect(named(alone).toSorted()).toEqual([
      'GET /v1/pets/:petId',
      'pg.query:pets-by-id postgres',
      'pg.query:valid-keys postgres',
    ]);
    expect(named(first).toSorted()).toEqual(['GET /v1/pets', 'pg.query:pets-pages postgres']);
    expect(named(second)).toEqual(['GET /v1/pets']);
    const served = spans.filter(({ name }) => name.startsWith('GET'));
    expect(served.map(({ parentSpanId }) => parentSpanId)).toEqual([CALLER, CALLER, CALLER]);
    const parents = served.map(({ spanId }) => spanId);
    const statements = spans.filter(({ name }) => name.startsWith('pg.'));
    expect(parents).toEqual(
      expect.arrayContaining(statements.map(({ parentSpanId }) => parentSpanId)),
    );
  });
});
