import { connectService } from '../../src/cli/serving-database.js';
import { readEnvironment } from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { ask } from '../support/ask.js';
import { createDatabase, dropDatabase } from '../support/service.js';

describe('a start on a node of Citus', () => {
  let url: string;
  beforeAll(async () => {
    url = await createDatabase();
    // Citus has this table on each node.
    await ask(url, 'create table pg_dist_local_group (groupid int)');
    await ask(url, 'insert into pg_dist_local_group values (0)');
  });
  afterAll(() => dropDatabase(url));

  it('is accepted on the coordinator', async () => {
    await (await connectService(url, readEnvironment({ DATABASE_URL: url }))).destroy();
  });

  it('is refused on a worker', async () => {
    await ask(url, 'update pg_dist_local_group set groupid = 7');
    const start = connectService(url, readEnvironment({ DATABASE_URL: url }));
    await expect(start).rejects.toThrow(OperatorError);
    await expect(start).rejects.toThrow('is a worker of Citus');
  });
});
