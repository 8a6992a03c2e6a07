import service from './jest.config.js';

/**
 * The tests of the stores and of HTTP on a cluster of Citus, and those that only a cluster can have: `npm run test:citus`.
 * @type {import('jest').Config}
 */
export default {
  ...service,
  testMatch: [
    '<rootDir>/test/citus/**/*spec.ts',
    '<rootDir>/test/api/**/*.e2e-spec.ts',
    '<rootDir>/test/database/stores.spec.ts',
    '<rootDir>/test/http/{health,headers,routing}.e2e-spec.ts',
  ],
  // It provokes errors by a trigger, which Citus does not allow.
  testPathIgnorePatterns: ['<rootDir>/test/api/examples'],
  // Tests stop nodes.
  maxWorkers: 1,
};
