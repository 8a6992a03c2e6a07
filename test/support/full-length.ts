/** Whether tests run in full length: more requests, and each case with each program. */
export const FULL_LENGTH = process.env['TEST_LENGTH'] === 'full';
