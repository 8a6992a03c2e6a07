/** The tests of the service: `npm test`. @type {import('jest').Config} */
export default {
  testMatch: ['<rootDir>/test/**/*spec.ts'],
  // Those of jest.programs.config.js.
  testPathIgnorePatterns: ['<rootDir>/test/operators/', '\\.browser\\.'],
  // Runs the tests in plain Node, which loads each module once and not once for each file of tests.
  runner: 'jest-light-runner',
  // Compiles them as they are loaded.
  setupFiles: ['<rootDir>/test/support/typescript.js'],
  globalSetup: '<rootDir>/test/support/start-postgres.js',
  globalTeardown: '<rootDir>/test/support/stop-postgres.js',
  // Resolves imports of TypeScript files for --watch and --findRelatedTests.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  // One more than CI has cores: some tests wait for seconds.
  maxWorkers: 3,
};
