/** The tests of the service: `npm test`. @type {import('jest').Config} */
export default {
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/test/**/*.e2e-spec.ts'],
  // Those of jest.programs.config.js.
  testPathIgnorePatterns: ['<rootDir>/test/process/', '<rootDir>/test/deploy/', '\\.browser\\.'],
  // Runs the tests in plain Node, which loads each module once and not once for each file of tests.
  runner: 'jest-light-runner',
  // Compiles them as they are loaded.
  setupFiles: ['<rootDir>/test/typescript.js'],
  globalSetup: '<rootDir>/test/postgres/start.js',
  globalTeardown: '<rootDir>/test/postgres/stop.js',
  // Resolves imports of TypeScript files for --watch and --findRelatedTests.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  maxWorkers: 2,
};
