/**
 * An answer whose body is JSON text already, so that nothing parses and writes it again. The adapter sends
 * `text` as it stands.
 */
export class JsonText {
  constructor(readonly text: string) {}
}
