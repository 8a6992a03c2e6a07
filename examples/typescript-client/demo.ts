import { AnimalStore, StoreError } from './client.js';

const [baseUrl = 'http://127.0.0.1:3000/v1', apiKey = ''] = process.argv.slice(2);
const store = new AnimalStore(baseUrl, apiKey);

const rex = await store.add({ name: 'Rex', categoryId: 9007199254740993n, status: 'sold' });
console.log(`added ${rex.name}, category ${rex.categoryId}`);

let count = 0;
for await (const pet of store.all('sold')) {
  count += pet.status === 'sold' ? 1 : 0;
}
console.log(`${count} sold`);

try {
  await store.add({ name: ' ', categoryId: 1n });
} catch (error) {
  if (!(error instanceof StoreError)) {
    throw error;
  }
  console.log(`${error.status} ${error.code}: ${error.message}`);
}
