/** Has the service at `base` store a pet. */
export async function addPet(base: string, key: string, name: string): Promise<void> {
  const answer = await fetch(`${base}/pets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name, categoryId: 1 }),
  });
  expect(answer.status).toBe(201);
}

/** The names of the pets that the service at `base` has. */
export async function petNames(base: string, key: string): Promise<string[]> {
  const answer = await fetch(`${base}/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(200);
  const pets = (await answer.json()) as { name: string }[];
  return pets.map(({ name }) => name);
}

/** The status that the service at `base` answers a request with `key` with. */
export async function statusWith(base: string, key: string): Promise<number> {
  const answer = await fetch(`${base}/pets`, { headers: { Authorization: `Bearer ${key}` } });
  await answer.body?.cancel();
  return answer.status;
}
