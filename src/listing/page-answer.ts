import { addHeaders, type Response } from '../http/response.js';
import { JsonText } from '../http/representation.js';
import type { Cursors } from './cursors.js';
import type { Page } from './pages.js';

/**
 * The answer with a page, and with a `Link` to the next one where more follow (RFC 8288).
 *
 * @param address of this list with its `limit` and filter, to which the next page's cursor is added.
 */
export function pageAnswer(
  response: Response,
  cursors: Cursors,
  { json, last }: Page,
  address: string,
): JsonText {
  if (last !== undefined) {
    addHeaders(response, { Link: `<${address}&cursor=${cursors.after(last)}>; rel="next"` });
  }
  return new JsonText(json);
}
