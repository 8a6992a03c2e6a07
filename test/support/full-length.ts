/**
 * Whether tests run in full length: more requests, and each case with each program. `npm run test:faults` has them do so,
 * and runs the tests that import this.
 */
export const FULL_LENGTH = process.env['TEST_LENGTH'] === 'full';
