import type { Environment } from '../config/environment.js';

/** The headers of getPet's deprecation (interface, part 9): RFC 9745, RFC 8594, and RFC 5829, section 3.3. */
export function deprecationHeaders({ DOCS, publicRoot }: Environment) {
  const guide = `, <${publicRoot}/docs/guides/deprecation>; rel="deprecation"; type="text/html"`;
  return {
    Deprecation: `@${Date.parse('2026-11-19') / 1000}`,
    Sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
    Link: `<${publicRoot}/v1/pets>; rel="successor-version"${DOCS === 'on' ? guide : ''}`,
  };
}
