/** The deprecation of one operation. Dates are the instants at which each takes effect. */
export interface Deprecation {
  /** When the operation became deprecated (RFC 9745). */
  since: Date;
  /** When it is to be removed (RFC 8594). */
  sunset: Date;
  /** What to use in its place: a URI reference. */
  successor: string;
}

/** getPet's (interface, part 9): replaced by listPets with its `status` filter. */
export const GET_PET_DEPRECATION: Deprecation = {
  since: new Date('2026-11-19T00:00:00Z'),
  sunset: new Date('2030-12-05T00:00:00Z'),
  successor: '/v1/pets',
};

/** `Deprecation` (RFC 9745, section 2), `Sunset` (RFC 8594, section 3) and `Link` (RFC 5829, section 3.3). */
export function deprecationHeaders(deprecation: Deprecation): Record<string, string> {
  return {
    Deprecation: `@${deprecation.since.getTime() / 1000}`,
    Sunset: deprecation.sunset.toUTCString(),
    Link: `<${deprecation.successor}>; rel="successor-version"`,
  };
}
