import supertest from 'supertest';

/** The client of a key, of the service at `base`, which ends with `/v1`. */
const client = (base: string, key: string) =>
  supertest.agent(base).set('Authorization', `Bearer ${key}`);

/** Creates a pet. */
export async function addPet(base: string, key: string, name: string): Promise<void> {
  await client(base, key).post('/pets').send({ name, categoryId: 1 }).expect(201);
}

/** @returns the names of the first pets. */
export async function petNames(base: string, key: string): Promise<string[]> {
  const { body } = await client(base, key).get('/pets').expect(200);
  return body.map(({ name }: { name: string }) => name);
}

/** @returns the status of the response to a list. */
export const statusWith = async (base: string, key: string): Promise<number> =>
  (await client(base, key).get('/pets')).status;
