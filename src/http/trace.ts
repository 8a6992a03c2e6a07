/**
 * The trace that a request belongs to, from its `traceparent` (W3C Trace Context, section 3.2.2).
 *
 * @returns 32 hexadecimal digits; `undefined` where the header is missing or malformed, two of them included, which the
 *   server joins with a comma.
 */
export function traceIdOf(traceparent: unknown): string | undefined {
  if (typeof traceparent !== 'string') {
    return undefined;
  }
  const [, version, traceId, parentId, more] = TRACEPARENT.exec(traceparent) ?? [];
  const isValid =
    version !== undefined &&
    version !== 'ff' &&
    // A later version may append fields.
    (version !== '00' || more === undefined) &&
    !ZEROS.test(traceId!) &&
    !ZEROS.test(parentId!);
  return isValid ? traceId : undefined;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const ZEROS = /^0+$/;
