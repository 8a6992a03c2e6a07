import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { Strategy } from 'passport-http-bearer';
import type { Request } from '../http/express-classes.js';
import type { ApiKeyVerifier } from './api-key-verifier.js';

/** Passport has one strategy for all applications of a process. So it has no verifier: the guard passes its own. */
@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  constructor() {
    super({ passReqToCallback: true });
  }

  /** passport's verify callback. `false` means that the credential is invalid. */
  async validate({ original, verifier }: BearerRequest, key: string) {
    const found = await verifier.verify(key, original.deadline);
    if (found?.isValid) {
      return found.caller;
    }
    original.rejectedKey = found?.caller.keyId;
    return false;
  }
}

/** What the guard passes to passport. */
export interface BearerRequest {
  headers: { authorization: string };
  original: Request;
  verifier: ApiKeyVerifier;
}
