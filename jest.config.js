const swc = {
  jsc: {
    target: 'es2023',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
};

/**
 * The tests of the service: `npm test`. Jest runs ES modules with `node --experimental-vm-modules`.
 * @type {import('jest').Config}
 */
export default {
  testMatch: ['<rootDir>/test/**/*spec.ts'],
  // Those of jest.programs.config.js and jest.citus.config.js.
  testPathIgnorePatterns: ['<rootDir>/test/(operators|citus)/', '\\.browser\\.'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '\\.ts$': ['@swc/jest', swc] },
  moduleNameMapper: {
    // TypeScript's files are imported by the names that they are compiled to.
    '^(\\.{1,2}/.*)\\.js$': '$1',
    // Jest loads packages anew for each test file: these two as their own bundles of one file, in place of 360 and 250.
    '^class-validator$': '<rootDir>/node_modules/class-validator/bundles/class-validator.umd.js',
    '^rxjs(/operators)?$': '<rootDir>/node_modules/rxjs/dist/bundles/rxjs.umd.js',
  },
  // With --watch, a change of a document or a migration runs the tests that read it.
  moduleFileExtensions: ['js', 'mjs', 'cjs', 'ts', 'json', 'node', 'yaml', 'sql', 'md'],
  dependencyExtractor: '<rootDir>/test/support/dependencies.js',
  testEnvironment: '<rootDir>/test/support/environment.js',
  setupFiles: ['<rootDir>/test/support/jest-global.js', '<rootDir>/test/support/evidence.ts'],
  globalSetup: '<rootDir>/test/support/start-postgres.js',
  globalTeardown: '<rootDir>/test/support/stop-postgres.js',
  // A test that hangs fails by name. In full length, some take minutes.
  testTimeout: process.env.TEST_LENGTH === 'full' ? 600_000 : 300_000,
  // A failure is printed once, whatever the number of files.
  reporters: [['default', { summaryThreshold: Infinity }]],
  // One more than CI has cores: some tests wait for seconds.
  maxWorkers: 3,
};
