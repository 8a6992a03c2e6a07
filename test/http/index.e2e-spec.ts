import { startService } from '../support/service.js';

it.each([
  [{}, './docs'],
  [{ DOCS: 'off' }, './openapi.json'],
])('GET / with %j leads to %s, without a key', async (variables, address) => {
  const service = await startService(variables);
  const { status, headers } = await service.anonymous.get('/');
  expect([status, headers['location']]).toEqual([303, address]);
  await service.anonymous.get(new URL(address, service.origin).pathname).expect(200);
  await service.stop();
});
