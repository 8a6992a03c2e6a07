/**
 * What `Allow` says of a path whose routes have `methods`, in alphabetical order: a GET route responds to HEAD too, and every
 * path OPTIONS (RFC 9110, sections 9.3.2 and 9.3.7).
 */
export function allowOf(methods: string[]): string {
  const heads = methods.includes('GET') ? ['HEAD'] : [];
  return [...new Set([...methods, ...heads, 'OPTIONS'])].toSorted().join(', ');
}
