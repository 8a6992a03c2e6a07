/** @type {import('jest').Config} */
export default {
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/test/**/*.e2e-spec.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        module: { type: 'es6' },
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          keepClassNames: true,
        },
      },
    ],
  },
  // Sources import each other as the build will be: with .js.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  globalSetup: '<rootDir>/test/postgres/start.js',
  globalTeardown: '<rootDir>/test/postgres/stop.js',
  maxWorkers: 2,
  // Of a hanging test: a busy machine takes many times as long as an idle one.
  testTimeout: 300_000,
};
