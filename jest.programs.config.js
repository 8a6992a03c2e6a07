import service from './jest.config.js';

/**
 * The tests of programs: the built one in processes of its own, alone and behind proxies, and the page in a browser:
 * `npm run test:programs`. @type {import('jest').Config}
 */
export default {
  ...service,
  testMatch: ['<rootDir>/test/operators/**/*spec.ts', '<rootDir>/test/**/*.browser.e2e-spec.ts'],
  testPathIgnorePatterns: [],
};
