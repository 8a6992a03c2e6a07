import { exactFetch } from './exact-fetch.js';
import { createClient } from './hey-api/client/index.js';
import { createPet, getPet, listPets } from './hey-api/sdk.gen.js';
import { zNewPet } from './hey-api/zod.gen.js';

const { BASE, KEY } = process.env;
const clientWith = (key?: string) =>
  createClient({ baseUrl: BASE, auth: key, fetch: exactFetch as typeof fetch });
const client = clientWith(KEY);

const body = { name: 'Rex', categoryId: '9007199254740993' };
const created = await createPet({ client, body });
console.log(created.data?.categoryId);

const { error: invalid } = await createPet({ client, body: { ...body, name: '' } });
if (invalid?.code === 'invalid_request') {
  console.log(invalid.status, invalid.code);
}

const { error: stranger } = await listPets({ client: clientWith('nobody') });
if (stranger?.code === 'invalid_api_key') {
  console.log(stranger.status, stranger.code);
}

const path = { petId: '9223372036854775807' };
const { error: missing } = await getPet({ client, path });
switch (missing?.code) {
  case 'pet_not_found':
    console.log(missing.status, missing.code);
    break;
  // @ts-expect-error No response of getPet has this code.
  case 'invalid_json':
}

// The names that the service accepts.
const isName = (name: string) => zNewPet.safeParse({ ...body, name }).success;
if (!isName('\u2027') || !isName('a\u2028') || isName('\u2028')) {
  throw new Error('The schema of names is wrong.');
}
