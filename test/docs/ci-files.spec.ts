import { parse } from 'yaml';
import { read } from '../support/documents.js';

describe('.github/workflows/ci.yml', () => {
  const text = read('.github/workflows/ci.yml');
  const { permissions, jobs } = parse(text);
  const [job] = Object.values<any>(jobs);

  it('may only read, and uses actions and an image that nobody can change', () => {
    expect([permissions, Object.keys(jobs)]).toEqual([{ contents: 'read' }, ['check']]);
    expect(job.permissions).toBeUndefined();
    const actions = text.match(/uses: .+/g)!;
    const pinned = /^uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;
    expect(actions.filter((action) => !pinned.test(action))).toEqual([]);
    expect(actions).toHaveLength(2);
    expect(read('Dockerfile')).toContain(`FROM ${job.container} AS`);
  });

  it('runs .ci/run on each major version of Node that package.json supports', () => {
    const supported = JSON.parse(read('package.json')).engines.node.matchAll(/(\d+)\.\d+\.\d+/g);
    const majors = [...supported].map(([, major]: string[]) => Number(major));
    expect(job.strategy.matrix.node).toEqual(majors);
    expect(job.steps.at(-1)).toEqual({ run: 'bash .ci/run' });
  });
});

it('.github/renovate.json groups npm, Docker and actions', () => {
  const { packageRules } = JSON.parse(read('.github/renovate.json'));
  const groups = packageRules.map(({ groupName, matchManagers }: any) => [
    groupName,
    matchManagers,
  ]);
  expect(groups).toEqual(
    expect.arrayContaining([
      ['npm', ['npm']],
      ['Docker', ['dockerfile', 'docker-compose', 'kubernetes']],
      ['actions', ['github-actions']],
    ]),
  );
});
