import { traceIdOf } from '../../src/http/access-log.js';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

describe('traceIdOf', () => {
  it.each([
    `00-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-ff`,
    `cc-${TRACE}-${PARENT}-01`,
    `cc-${TRACE}-${PARENT}-01-what-the-future-holds`,
  ])('reads %s', (traceparent) => expect(traceIdOf(traceparent)).toBe(TRACE));

  it.each([
    ['none', undefined],
    ['an empty one', ''],
    ['two, joined by the server', `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
    ['version 00 with more fields', `00-${TRACE}-${PARENT}-01-more`],
    ['version 00 with an empty field', `00-${TRACE}-${PARENT}-01-`],
    ['version ff', `ff-${TRACE}-${PARENT}-01`],
    ['a later version with more but no hyphen', `cc-${TRACE}-${PARENT}-01.more`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${PARENT}-01`],
    ['a parent of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['upper case', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
    ['a digit that is not hexadecimal', `00-${TRACE.replace('4', 'g')}-${PARENT}-01`],
    ['a trace cut short', `00-${TRACE.slice(1)}-${PARENT}-01`],
    ['a parent cut short', `00-${TRACE}-${PARENT.slice(1)}-01`],
    ['no flags', `00-${TRACE}-${PARENT}`],
    ['a space before', ` 00-${TRACE}-${PARENT}-01`],
    ['a line break after', `00-${TRACE}-${PARENT}-01\n`],
  ])('ignores %s', (_title, traceparent) => expect(traceIdOf(traceparent)).toBeUndefined());
});
