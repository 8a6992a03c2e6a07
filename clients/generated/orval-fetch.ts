import { exactFetch } from './exact-fetch.js';

/** What sends the requests of the client that orval generates. */
export async function send<Answer>(path: string, init: RequestInit): Promise<Answer> {
  const { BASE, KEY } = process.env;
  const headers = { Authorization: `Bearer ${KEY}`, ...init.headers };
  const response = await exactFetch(`${BASE}${path}`, { ...init, headers });
  const { status } = response;
  return { status, data: await response.json(), headers: response.headers } as Answer;
}
