/** A serialized response body. The adapter sends `data` unchanged, with `mediaType` as its `Content-Type`. */
export class Representation {
  constructor(
    readonly data: string | Uint8Array,
    readonly mediaType: string,
  ) {}
}

export const JSON_MEDIA_TYPE = 'application/json; charset=utf-8';

/** A body that is already JSON text, so that it is not serialized again. */
export class JsonText extends Representation {
  constructor(text: string) {
    super(text, JSON_MEDIA_TYPE);
  }
}
