import createClient from 'openapi-fetch';
import { exactFetch } from './exact-fetch.js';
import type { paths } from './openapi-typescript/store.js';

const { BASE, KEY } = process.env;
const clientWith = (key?: string) =>
  createClient<paths>({
    baseUrl: BASE,
    headers: { Authorization: `Bearer ${key}` },
    fetch: exactFetch,
  });
const store = clientWith(KEY);

const body = { name: 'Rex', categoryId: '9007199254740993' };
const created = await store.POST('/pets', { body });
console.log(created.data?.categoryId);

const { error: invalid } = await store.POST('/pets', { body: { ...body, name: '' } });
if (invalid?.code === 'invalid_request') {
  console.log(invalid.status, invalid.code);
}

const { error: stranger } = await clientWith('nobody').GET('/pets');
if (stranger?.code === 'invalid_api_key') {
  console.log(stranger.status, stranger.code);
}

const petId = '9223372036854775807';
const { error: missing } = await store.GET('/pets/{petId}', { params: { path: { petId } } });
switch (missing?.code) {
  case 'pet_not_found':
    console.log(missing.status, missing.code);
    break;
  // @ts-expect-error No response of getPet has this code.
  case 'invalid_json':
}
