/**
 * An answer that is not JSON: a page, a style sheet, a script. The adapter sends `data` as it stands, with
 * `mediaType` as its `Content-Type`.
 */
export class Representation {
  constructor(
    readonly data: string | Uint8Array,
    readonly mediaType: string,
  ) {}
}
