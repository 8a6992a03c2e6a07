/**
 * What every peer has in common with the service: cursors, error bodies, deprecation headers, the log and the rules
 * for what a client may send. Taken from the service's build where it has them, so that all serve one contract.
 */
import { parse } from 'lossless-json';
import { pino, stdTimeFunctions } from 'pino';
import { ERRORS } from '../../dist/src/errors/api-error.js';
import { INT64_MIN, int64FromDecimal, int64FromJson } from '../../dist/src/int64.js';
import { cursorAfter, idBefore } from '../../dist/src/listing/cursors.js';
import { bufferedStandardOutput } from '../../dist/src/logging/logger.js';

export { int64FromDecimal };

/** The Error body of one of the service's codes. */
export const errorBody = (code, message) => ({ code, message, status: ERRORS[code].status });

/** One JSON line a request, gathered and written as the service does its own. */
export const logger = pino(
  { base: undefined, timestamp: stdTimeFunctions.isoTime },
  bufferedStandardOutput(),
);

export const JSON_TYPE = 'application/json; charset=utf-8';

export const DEPRECATION_HEADERS = {
  Deprecation: `@${Date.parse('2026-11-19') / 1000}`,
  Sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
  Link: '</v1/pets>; rel="successor-version", </docs/guides/deprecation>; rel="deprecation"; type="text/html"',
};

export const PET_STATUSES = ['available', 'pending', 'sold'];

/** Bytes of a request body. */
export const BODY_LIMIT = 16 * 1024;

/** Connections that each server may open to the database: the service's default. */
export const POOL_SIZE = 10;

/** An Error body with the headers that go with it, to throw. */
export class Fault extends Error {
  constructor(code, message, headers = {}) {
    super(message);
    this.body = errorBody(code, message);
    this.headers = headers;
  }

  static missingKey = () =>
    new Fault('missing_api_key', 'An API key is required: send Authorization: Bearer <key>.', {
      'WWW-Authenticate': 'Bearer realm="animal-store"',
    });

  static invalidKey = () =>
    new Fault('invalid_api_key', 'The API key is not valid.', {
      'WWW-Authenticate': 'Bearer realm="animal-store", error="invalid_token"',
    });

  static invalid = (message) => new Fault('invalid_request', message);

  static noSuchPet = () => new Fault('pet_not_found', 'No such pet.');

  static noSuchRoute = () => new Fault('route_not_found', 'No such path.');

  static internal = () => new Fault('internal_error', 'The service failed; the fault is ours.');
}

/** The id at which a page starts. @throws Fault for a cursor that nobody issued. */
export function startOf(cursor) {
  if (cursor === undefined) {
    return INT64_MIN;
  }
  const id = idBefore('pets', cursor);
  if (id === undefined) {
    throw Fault.invalid('cursor must be one that this service issued');
  }
  return id + 1n;
}

/** The page that a query of listPets asks for, each of its values as sent. @throws Fault */
export function pageRequest({ limit = '20', status, cursor }) {
  if (!/^(?:[1-9][0-9]?|100)$/.test(limit)) {
    throw Fault.invalid('limit must be a whole number from 1 to 100');
  }
  if (status !== undefined && !PET_STATUSES.includes(status)) {
    throw Fault.invalid(`status must be one of ${PET_STATUSES.join(', ')}`);
  }
  return { limit: Number(limit), status, start: startOf(cursor) };
}

/** `Link` of a page whose last animal is `last`. */
export function nextLink({ limit, status }, last) {
  const filter = status === undefined ? '' : `&status=${status}`;
  return `</v1/pets?limit=${limit}${filter}&cursor=${cursorAfter('pets', BigInt(last))}>; rel="next"`;
}

/** Parses JSON whose int64s become bigints, exactly; other numbers become NaN. @throws Fault */
export function parseJson(text) {
  try {
    return parse(text, null, { parseNumber: (digits) => int64FromJson(digits) ?? NaN });
  } catch {
    throw new Fault('invalid_json', 'The body is not JSON.');
  }
}

/** @returns the NewPet that `body` is. @throws Fault */
export function newPet(body) {
  const { name, categoryId, status = 'available' } = body ?? {};
  if (typeof name !== 'string' || name.length > 255 || name.trim() === '') {
    throw Fault.invalid('name must be a string of 1 to 255 characters');
  }
  if (typeof categoryId !== 'bigint') {
    throw Fault.invalid('categoryId must be an int64');
  }
  if (!PET_STATUSES.includes(status)) {
    throw Fault.invalid(`status must be one of ${PET_STATUSES.join(', ')}`);
  }
  return { name, categoryId, status };
}

/** A Pet as JSON: pg hands int64s out as decimal strings, which stand in the text as they are. */
export function petJson({ id, name, categoryId, status }) {
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
}

export function petsJson(pets) {
  return `[${pets.map(petJson).join(',')}]`;
}
