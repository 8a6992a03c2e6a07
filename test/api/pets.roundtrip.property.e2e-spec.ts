import fc from 'fast-check';
import { walk } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

const WHITE_SPACE = [
  ...'\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a',
  ...'\u2028\u2029\u202f\u205f\u3000',
];

const anyText = fc.string({ unit: 'binary', minLength: 1, maxLength: 255, size: 'max' });
const name = fc
  .oneof(anyText, fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }))
  .filter(
    (text) =>
      !text.includes('\0') && [...text].some((character) => !WHITE_SPACE.includes(character)),
  );
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const status = fc.constantFrom('available', 'pending', 'sold');

describe('what is stored', () => {
  const service = serviceOfTests();

  const post = (name: string, categoryId: bigint, status: string) =>
    service.api
      .post('/v1/pets')
      .set('Content-Type', 'application/json')
      .send(`{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`);

  it('comes back exactly from createPet, getPet and listPets', async () => {
    const created = new Map<number, string>();
    await fc.assert(
      fc.asyncProperty(name, int64, status, async (name, categoryId, status) => {
        const { text, headers } = await post(name, categoryId, status).expect(201);
        const pet = JSON.parse(text);
        expect(pet.name).toBe(name);
        expect(text.replace(/"name":.*,"categoryId"/su, '"categoryId"')).toBe(
          `{"id":${pet.id},"categoryId":${categoryId},"status":"${status}"}`,
        );
        expect((await service.api.get(headers['location']!).expect(200)).text).toBe(text);
        created.set(pet.id, text);
      }),
      { numRuns: 300 },
    );
    const stored = [...created.values()];
    const pages = await walk(service, '/v1/pets?limit=100');
    pages.forEach(({ text }, i) => {
      expect(text).toBe(`[${stored.slice(i * 100, (i + 1) * 100).join(',')}]`);
    });
    expect(pages).toHaveLength(Math.ceil(stored.length / 100));
  });
});
