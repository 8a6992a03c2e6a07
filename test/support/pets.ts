/** Sends a request to the service at `base`, which ends with `/v1`. */
async function request(base: string, key: string, init: RequestInit = {}): Promise<Response> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  return fetch(`${base}/pets`, { headers, ...init });
}

/** Creates a pet. */
export async function addPet(base: string, key: string, name: string): Promise<void> {
  const body = JSON.stringify({ name, categoryId: 1 });
  expect((await request(base, key, { method: 'POST', body })).status).toBe(201);
}

/** @returns the names of the first pets. */
export async function petNames(base: string, key: string): Promise<string[]> {
  const response = await request(base, key);
  expect(response.status).toBe(200);
  return ((await response.json()) as { name: string }[]).map(({ name }) => name);
}

/** @returns the status of the response to a list. */
export async function statusWith(base: string, key: string): Promise<number> {
  const { body, status } = await request(base, key);
  await body?.cancel();
  return status;
}
