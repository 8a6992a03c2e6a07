import { Project } from '../support/project.js';

describe('before a command that runs the build', () => {
  const project = Project.ofTests();

  it.each([
    ...['20.18.3', '21.19.0', '22.12.0', '23.11.0', '24.10.0'].map(
      (node) => [node, false] as const,
    ),
    ...['20.19.0', '22.13.0', '24.11.0', '25.0.0'].map((node) => [node, true] as const),
  ])('Node %s is accepted: %j', async (node, isAccepted) => {
    const simulated = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '${node}' })`;
    const args = [`--import=${simulated}`, 'scripts/build-when-needed.mjs'];
    const { code, stdout, stderr } = await project.start(process.execPath, args, {}).outcome;
    const refusal = expect.stringMatching(`^This is Node ${node}; the service needs `);
    expect([code, stdout, stderr]).toEqual(isAccepted ? [0, '', ''] : [1, '', refusal]);
  });
});

describe('npm run start:dev', () => {
  const project = Project.ofTests();

  it.each([
    ['before it starts the service', `throw new Error('ENOSPC')`],
    ['later', `setTimeout(() => { throw new Error('ENOSPC') }, 500)`],
  ])('leaves no service if a file cannot be watched, %s', async (_when, fails) => {
    const module = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module'; fs.watch = () => { ${fails} }; syncBuiltinESMExports();`;
    const service = `console.log(process.pid); setInterval(() => {}, 1_000);`;
    const simulated = `--import=data:text/javascript,${encodeURIComponent(module)}`;
    const args = [simulated, 'scripts/restart-on-change.mjs', '-e', service];
    // Once the service has ended too, which has the same standard output.
    const { code, stderr } = await project.start(process.execPath, args, {}).outcome;
    expect([code, stderr]).toEqual([1, expect.stringContaining('ENOSPC')]);
  });
});
