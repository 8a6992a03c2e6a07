import { serviceOfTests } from '../support/service.js';
import { exchange, request } from '../support/raw-http.js';

/** For each `TRUST_PROXY`: values of `X-Forwarded-For`, and the client that the log then names. */
describe.each<[string, [forwardedFor: string[], client: string][]]>([
  ['', [[['203.0.113.7', '10.1.2.3'], '127.0.0.1']]],
  [
    '1',
    [
      [[], '127.0.0.1'],
      [['2001:db8::7'], '2001:db8::7'],
      [['198.51.100.1, 203.0.113.7'], '203.0.113.7'],
      [['198.51.100.1', '203.0.113.7'], '203.0.113.7'],
      [['203.0.113.9:61598'], '203.0.113.9'],
      [['[2001:db8::1]:443'], '2001:db8::1'],
      [['203.0.113.9:1, [2001:DB8::7]'], '2001:DB8::7'],
    ],
  ],
  ['2', [[['198.51.100.1, 203.0.113.7, 10.1.2.3'], '203.0.113.7']]],
  [
    '127.0.0.1, 10.0.0.0/8',
    [
      [['198.51.100.1, 203.0.113.7, 10.1.2.3'], '203.0.113.7'],
      [['10.1.2.3'], '10.1.2.3'],
      [['198.51.100.1:1, 203.0.113.7:2, 10.1.2.3:443'], '203.0.113.7'],
      ...['not-an-address', '203.0.113.7:port', '[203]:1', '"}\\n{"forged":true}', '', ', ,'].map(
        (value): [string[], string] => [[value], '127.0.0.1'],
      ),
    ],
  ],
  ['10.0.0.0/8', [[['203.0.113.7'], '127.0.0.1']]],
])('with TRUST_PROXY=%s', (TRUST_PROXY, cases) => {
  const service = serviceOfTests({ TRUST_PROXY });

  it.each(cases)('of X-Forwarded-For %j the log has %s', async (forwardedFor, client) => {
    service.log.length = 0;
    const headers = forwardedFor.map((value) => `X-Forwarded-For: ${value}`);
    await exchange(service.port, request('GET /health/live', headers));
    expect(service.log.map((line) => JSON.parse(line).client)).toEqual([client]);
  });
});
