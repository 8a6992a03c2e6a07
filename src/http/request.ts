import type { Request as ExpressRequest } from 'express';

/** Whose request it is: set by the guard, after the key was checked. */
export interface Caller {
  /** `api_keys.id`, an int64 in decimal. */
  keyId: string;
}

/** A request as it travels through the service. */
export interface Request extends ExpressRequest {
  /** The client's `X-Request-Id` where it is well-formed, else one made here. */
  id: string;
  /** `performance.now()` when its headers had arrived, in milliseconds. */
  receivedAt: number;
  /** The pattern of its route, such as `/v1/pets/:petId`, where it has one. */
  routePath?: string;
  caller?: Caller;
  /** The status that it was answered with past the application, when its body turned out to be malformed. */
  refusedWith?: number;
}
