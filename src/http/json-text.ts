/** A response body that is JSON text already. The adapter sends it unchanged, as `application/json`. */
export class JsonText {
  constructor(readonly text: string) {}
}

export const JSON_MEDIA_TYPE = 'application/json; charset=utf-8';
