import { executionAsyncResource } from 'node:async_hooks';
import { execFileSync } from 'node:child_process';
import { unavailableCause } from '../../src/errors/database-error.js';
import { read } from '../support/documents.js';

// What the service relies on that the libraries do not document.
it.each([
  [
    'pg',
    '8.23.1',
    `Query reads inherited members of its configuration (src/database/statement.ts).
     A client has processID and connection.stream, its socket, and a query may have query_timeout (src/database/servers.ts).
     Some errors have no code, but these messages (DRIVER_ERRORS in src/errors/database-error.ts).`,
  ],
  [
    'pg-pool',
    '3.14.0',
    'A client whose _queryable is false, as after its socket was destroyed, is not used again (closeAfter in src/database/pool.ts).',
  ],
  [
    'typeorm',
    '1.1.1',
    'driver.master is the pool, of the class driver.Pool (src/database/data-source.ts).',
  ],
  [
    '@nestjs/common',
    '12.5.1',
    'ValidationPipe has protected members (src/validation/request-validation.pipe.ts).',
  ],
])('%s is %s, whose internals the service relies on', (name, version, internals) => {
  const installed = JSON.parse(read(`node_modules/${name}/package.json`)).version;
  if (installed !== version) {
    throw new Error(
      `${name} ${installed} is installed. Compare its source with that of ${version}, and run all tests. If this still ` +
        `holds, write the new version here, or else correct the files:\n${internals}`,
    );
  }
});

it('the errors of a lost connection that pg throws without a code are unavailable', () => {
  const texts = read('node_modules/pg/lib/client.js').matchAll(
    /new Error\('((?:Conn|Client ).+?)'/g,
  );
  const messages = [...new Set(Array.from(texts, ([, text]) => text!))];
  const lost = messages.filter((message) => unavailableCause(new Error(message)));
  expect(lost).toEqual([
    'Connection terminated',
    'Connection terminated unexpectedly',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
  ]);
});

describe('Node, on whose internals src/http relies,', () => {
  const source = (name: string): string =>
    execFileSync(
      process.execPath,
      ['--no-warnings', '-p', `process.binding('natives')['${name}']`],
      {
        encoding: 'utf8',
        maxBuffer: 2 ** 24,
      },
    );
  const server = source('_http_server');
  const incoming = source('_http_incoming');
  const common = source('_http_common');

  it.each<[string, string, RegExp]>([
    [
      'gives the socket to the next response by itself, and ends it after a response with Connection: close',
      server,
      /if \(res\._last\) \{[^]*?destroySoon\(\)[^]*?outgoing\.shift\(\)[^]*?assignSocket\(socket\)/,
    ],
    [
      'closes a socket of which both sides have ended, or whose last response the system has, with its own destroy (Connection.closeWhenRead)',
      source('net'),
      /destroySoon = function\(\) \{[^]*?if \(this\.writableFinished\)\s+this\.destroy\(\);\s+else\s+this\.once\('finish', this\.destroy\)/,
    ],
    [
      'stops and starts the reading of a socket with pause and resume (Connection.stopReading, Connections.readInTurn)',
      server,
      /socket\.on\('resume', onSocketResume[^]*?socket\.on\('pause', onSocketPause/,
    ],
    [
      'lets a half-closed client have its response if httpAllowHalfOpen is set (HttpAdapter.initHttpServer)',
      server,
      /!server\.httpAllowHalfOpen/,
    ],
    [
      'has the parser of a connection, whose finish tells whether a request has begun (HttpAdapter.rejectInput)',
      server,
      /socket\.parser = parser;[^]*?parser\.finish\(\);\s+if \(ret instanceof Error/,
    ],
    [
      'calls push for each chunk of a body, and does not read on if it returns false (Request.push)',
      common,
      /const ret = stream\.push\(b\);\s+if \(!ret\)\s+readStop/,
    ],
    [
      'reads on when _read is called (Request._read)',
      incoming,
      /IncomingMessage\.prototype\._read = function[^]*?readStart\(this\.socket\)/,
    ],
    [
      'discards the rest of a body unless something has read it (Response.end)',
      server,
      /resumeScheduled\)\s+req\._dump\(\)/,
    ],
    [
      'destroys each request of a connection that closes (Request.destroy)',
      server,
      /function abortIncoming[^]*?req\.destroy\(/,
    ],
    [
      'constructs the classes that it was given (classesFor)',
      server,
      /new server\[kServerResponse\]\(req/,
    ],
    [
      'ends idle connections with closeIdleConnections, which does nothing here (HttpAdapter.initHttpServer)',
      server,
      /function httpServerPreClose\(server\) \{\s+server\.closeIdleConnections\(\);/,
    ],
    [
      'tells a response that waited for others when it has its socket (Response.destroy)',
      server,
      /assignSocket = function[^]*?this\.emit\('socket', socket\);\s+this\._flush/,
    ],
  ])('%s', (promise, text, pattern) => {
    if (!pattern.test(text)) {
      throw new Error(
        `Node ${process.versions.node} may not do this any more: it ${promise}. Read its lib/net.js and lib/_http_*.js, and change src/http.`,
      );
    }
  });

  it('Express gives each request and response the prototype that it has already (classesFor)', () => {
    const [set] =
      /setPrototypeOf\(req, this\.request\)\s+Object\.setPrototypeOf\(res, this\.response\)/.exec(
        read('node_modules/express/lib/application.js'),
      ) ?? [];
    expect(set).toBeDefined();
  });

  it('the resource of a tick is the object that nextTick makes for its callback (src/cli/serve.ts)', async () => {
    const members = await new Promise((resolve) => {
      process.nextTick(() => resolve(Object.keys(executionAsyncResource())));
    });
    expect(members).toContain('callback');
  });

  it('V8 has the flags that the service sets (src/cli/serve.ts, package.json)', () => {
    const flags = [
      '--heap-growing-percent',
      '--allocation-site-pretenuring',
      '--max-semi-space-size',
    ];
    const options = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
    expect(flags.filter((flag) => !options.includes(`  ${flag} (`))).toEqual([]);
  });
});
