import type { Response } from 'express';
import { JsonText } from '../http/json-text.js';
import type { Page } from './pages.js';

/**
 * @returns the body for a page. If more items follow, adds a `Link` to the next page to the response (RFC 8288).
 *
 * @param address the URL of this list with its `limit` and filter. The cursor of the next page is added to it.
 */
export function pageResponse(response: Response, { json, next }: Page, address: string): JsonText {
  if (next !== undefined) {
    response.setHeader('Link', `<${address}&cursor=${next}>; rel="next"`);
  }
  return new JsonText(json);
}
