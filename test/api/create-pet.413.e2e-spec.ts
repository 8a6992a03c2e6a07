import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const REX = '{"name":"Rex","categoryId":1}';

describe('createPet 413', () => {
  const service = serviceOfTests();

  it.each([
    ['16,385 bytes', REX.padEnd(16_385)],
    ['1 MiB', REX.padEnd(1024 * 1024)],
    ['18,000 bytes in 6,000 characters', `{"x":"${'猫'.repeat(6000)}",${REX.slice(1)}`],
  ])('refuses a body of %s, with its length and in chunks', async (_what, body) => {
    for (const framing of [{}, { 'Transfer-Encoding': 'chunked' }]) {
      const headers = { 'Content-Type': 'application/json', ...framing } as Record<string, string>;
      expectError(await send(service, { headers, body }), 413, 'payload_too_large');
    }
    expect(await service.query('select * from pets')).toEqual([]);
  });
});
