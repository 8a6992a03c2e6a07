/** Answers with constant bytes and looks at nothing: the most that node:http and the load generator can do. */
import { createServer } from 'node:http';
import { JSON_TYPE, petJson, petsJson } from './contract.js';

const pet = { id: 50_000, name: 'An animal with some name', categoryId: 7, status: 'available' };
const one = Buffer.from(petJson(pet));
const twenty = Buffer.from(petsJson(Array.from({ length: 20 }, () => pet)));

createServer(({ method, url }, response) => {
  const body = method === 'POST' || url.startsWith('/v1/pets/') ? one : twenty;
  response.writeHead(method === 'POST' ? 201 : 200, {
    'Content-Type': JSON_TYPE,
    'Content-Length': body.length,
  });
  response.end(body);
}).listen(Number(process.env.PORT), '127.0.0.1');
