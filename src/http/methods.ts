/**
 * The value of `Allow` for a path whose routes have `methods`, in alphabetical order. A GET route also responds to
 * HEAD, and every path responds to OPTIONS (RFC 9110, sections 9.3.2 and 9.3.7).
 */
export function allowOf(methods: string[]): string {
  const heads = methods.includes('GET') ? ['HEAD'] : [];
  return [...new Set([...methods, ...heads, 'OPTIONS'])].toSorted().join(', ');
}
