import { walk } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

const WALKS = 5;

describe('a walk through the pages of listPets', () => {
  let services: [TestService, TestService];
  beforeAll(async () => {
    const one = await startService();
    services = [one, await startService({}, one.databaseUrl)];
  });
  afterAll(async () => {
    await services[1].stop();
    await services[0].stop();
  });

  const create = async ({ api }: TestService): Promise<number> => {
    const answer = await api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    return answer.body.id;
  };
  const idsOf = (pages: { text: string }[]): number[] =>
    pages.flatMap(({ text }) => JSON.parse(text).map(({ id }: { id: number }) => id));

  it('finds every animal that was created before it began, and none twice, while two processes create', async () => {
    const created: number[] = [];
    let isOver = false;
    const writers = [...services, ...services].map(async (service) => {
      while (!isOver) {
        created.push(await create(service));
      }
    });
    try {
      for (let i = 0; i < WALKS; i += 1) {
        const before = [...created, await create(services[i % 2]!)];
        const path = i % 3 === 0 ? '/v1/pets?limit=50' : '/v1/pets?limit=40&status=available';
        const ids = idsOf(await walk(services[(i + 1) % 2]!, path));
        const found = new Set(ids);
        expect(before.filter((id) => !found.has(id))).toEqual([]);
        expect(ids).toEqual([...found].toSorted((a, b) => a - b));
      }
    } finally {
      isOver = true;
      await Promise.all(writers);
    }
  });
});
