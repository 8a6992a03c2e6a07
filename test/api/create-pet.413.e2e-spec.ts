import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const FRAMINGS: Record<string, string>[] = [{}, { 'Transfer-Encoding': 'chunked' }];

describe('createPet 413', () => {
  const service = serviceOfTests();

  it.each([
    ['16,385 bytes', 16_385],
    ['1 MiB', 1024 * 1024],
  ])('refuses a body of %s, with its length and in chunks', async (_what, size) => {
    const body = '{"name":"Rex","categoryId":1}'.padEnd(size);
    for (const framing of FRAMINGS) {
      const answer = await send(service, {
        headers: { 'Content-Type': 'application/json', ...framing },
        body,
      });
      expectError(answer, 413, 'payload_too_large');
    }
    expect(await service.query('select * from pets')).toEqual([]);
  });

  it('counts bytes, not characters', async () => {
    const body = `{"name":"Rex","categoryId":1,"x":"${'猫'.repeat(6000)}"}`;
    const answer = await send(service, {
      headers: { 'Content-Type': 'application/json' },
      body,
    });
    expectError(answer, 413, 'payload_too_large');
  });
});
