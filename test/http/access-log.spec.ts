import { traceIdOf } from '../../src/http/access-log.js';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const VALID = `00-${TRACE}-00f067aa0ba902b7-01`;
const LATER = VALID.replace('00', 'cc');

describe('traceIdOf', () => {
  it.each([VALID, LATER, `${LATER}-what-the-future-holds`])('reads %s', (traceparent) =>
    expect(traceIdOf(traceparent)).toBe(TRACE),
  );

  it.each([
    `${VALID}, ${VALID}`,
    VALID.replace('00', 'ff'),
    ...[/-01/, /4/].map((part) => VALID.replace(part, '')),
    VALID.replace(TRACE, '0'.repeat(32)),
    VALID.replace(/00f\w+/, '0'.repeat(16)),
  ])('ignores %j', (traceparent) => expect(traceIdOf(traceparent)).toBeUndefined());
});
