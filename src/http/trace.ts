/**
 * The trace that a request belongs to, from its `traceparent` (W3C Trace Context, section 3.2.2).
 *
 * @returns 32 hexadecimal digits; `undefined` if the header is missing or malformed. Two headers, which the server
 *   joins with a comma, are malformed.
 */
export function traceIdOf(traceparent: unknown): string | undefined {
  if (typeof traceparent !== 'string') {
    return undefined;
  }
  const [, version, traceId, more] = TRACEPARENT.exec(traceparent) ?? [];
  // A later version may append fields.
  return version === '00' && more !== undefined ? undefined : traceId;
}

/** The version is not `ff`, and no id is all zeros. */
const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/;
