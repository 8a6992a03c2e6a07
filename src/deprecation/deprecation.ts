import type { Environment } from '../config/environment.js';

/** The deprecation of getPet (interface, part 9). Its successor is listPets. */
export const GET_PET_DEPRECATION = {
  since: new Date('2026-11-19T00:00:00Z'),
  sunset: new Date('2030-12-05T00:00:00Z'),
  successor: '/v1/pets',
  guide: '/docs/guides/deprecation',
};

/**
 * `Deprecation` (RFC 9745, section 2), `Sunset` (RFC 8594, section 3) and `Link` (RFC 5829, section 3.3, and RFC 9745,
 * section 3).
 */
export function deprecationHeaders({ DOCS, publicRoot }: Environment) {
  const { since, sunset, successor, guide } = GET_PET_DEPRECATION;
  const toGuide = `, <${publicRoot}${guide}>; rel="deprecation"; type="text/html"`;
  return {
    Deprecation: `@${since.getTime() / 1000}`,
    Sunset: sunset.toUTCString(),
    Link: `<${publicRoot}${successor}>; rel="successor-version"${DOCS === 'on' ? toGuide : ''}`,
  };
}
