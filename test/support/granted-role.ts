import { query } from './ask.js';
import { read } from './documents.js';

/** What docs/grants.sql grants to the service, or to another role `like`, and nothing else. */
export const grantsTo = (role: string, like = 'animals') =>
  read('docs/grants.sql')
    .match(new RegExp(`^grant .+ to ${like};$`, 'gm'))!
    .join('\n')
    .replaceAll(`to ${like};`, `to ${role};`);

/**
 * Creates a role with the rights of docs/grants.sql for the service, or for `like`, on the database at `owner`.
 *
 * @returns the URL of the database with that role, whose name it has.
 */
export async function createGrantedRole(owner: string, like = 'animals'): Promise<string> {
  const role = roleOf(owner);
  await query(owner, `create role ${role} login password 'sekrit'`, grantsTo(role, like));
  return Object.assign(new URL(owner), { username: role, password: 'sekrit' }).href;
}

export async function dropGrantedRole(owner: string): Promise<void> {
  await query(owner, `drop owned by ${roleOf(owner)}`, `drop role ${roleOf(owner)}`);
}

/** Roles belong to the whole server, so each database has one of its own. */
export const roleOf = (owner: string) => `${new URL(owner).pathname.slice(1)}_service`;
