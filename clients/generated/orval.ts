import { createPet, getPet, listPets } from './orval/store.js';

const body = { name: 'Rex', categoryId: '9007199254740993' };
const created = await createPet(body);
if (created.status === 201) {
  console.log(created.data.categoryId);
}

const invalid = await createPet({ ...body, name: '' });
if (invalid.status === 400) {
  const code: 'invalid_json' | 'invalid_request' = invalid.data.code;
  console.log(invalid.data.status, code);
}

const stranger = await listPets({}, { headers: { Authorization: 'Bearer nobody' } });
if (stranger.status === 401) {
  const code: 'missing_api_key' | 'invalid_api_key' = stranger.data.code;
  console.log(stranger.data.status, code);
}

const missing = await getPet('9223372036854775807');
if (missing.status === 404) {
  const code: 'pet_not_found' = missing.data.code;
  console.log(missing.data.status, code);
}
