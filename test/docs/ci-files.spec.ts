import { parse } from 'yaml';
import { read } from '../support/documents.js';

it('.github/workflows/ci.yml runs .ci/run on each Node of package.json, may only read, and pins what it uses', () => {
  const text = read('.github/workflows/ci.yml');
  const { permissions, jobs } = parse(text);
  const { container, strategy, steps, permissions: more } = jobs.check;
  expect([permissions, more, Object.keys(jobs)]).toEqual([
    { contents: 'read' },
    undefined,
    ['check'],
  ]);
  const pinned = /uses: actions\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/gm;
  expect(text.match(pinned)).toHaveLength(text.match(/uses:/g)!.length);
  expect(read('Dockerfile')).toContain(`FROM ${container} AS`);
  const supported = JSON.parse(read('package.json')).engines.node.matchAll(/(\d+)\.\d+\.\d+/g);
  expect(strategy.matrix.node).toEqual([...supported].map(([, major]) => Number(major)));
  expect(steps.at(-1)).toEqual({ run: 'bash .ci/run' });
});

it('.github/renovate.json groups npm, Docker and actions', () => {
  const { packageRules } = JSON.parse(read('.github/renovate.json'));
  const groups = Object.fromEntries(
    packageRules.slice(0, 3).map((rule: any) => [rule.groupName, rule.matchManagers]),
  );
  const Docker = ['dockerfile', 'docker-compose', 'kubernetes'];
  expect(groups).toEqual({ npm: ['npm'], Docker, actions: ['github-actions'] });
});
