import { isUnavailable } from '../../src/errors/database-error.js';
import { read } from '../support/documents.js';

// What the service relies on that the libraries do not document.
it.each([
  [
    'pg',
    '8.23.1',
    `Query reads inherited members of its configuration (src/database/statement.ts).
     A client has processID, and a query may have query_timeout (src/database/servers.ts).
     Some errors have no code, but these messages (DRIVER_ERRORS in src/errors/database-error.ts).`,
  ],
  [
    'pg-pool',
    '3.14.0',
    `A client whose _ending is true is not used again (limit in src/database/pool.ts).
     options.max is read each time that a client is wanted (stopOpening in src/database/pool.ts).`,
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
  const lost = messages.filter((message) => isUnavailable(new Error(message)));
  expect(lost).toEqual([
    'Connection terminated',
    'Connection terminated unexpectedly',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
  ]);
});
