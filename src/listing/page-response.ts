import { addHeaders, type Response } from '../http/response.js';
import { JsonText } from '../http/representation.js';
import type { Page } from './pages.js';

/**
 * The response with a page, and with a `Link` to the next one if more items follow (RFC 8288).
 *
 * @param address of this list with its `limit` and filter, to which the next page's cursor is added.
 */
export function pageResponse(response: Response, { json, next }: Page, address: string): JsonText {
  if (next !== undefined) {
    addHeaders(response, { Link: `<${address}&cursor=${next}>; rel="next"` });
  }
  return new JsonText(json);
}
