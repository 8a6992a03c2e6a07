import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { Strategy } from 'passport-http-bearer';
import type { Request } from '../http/express-classes.js';
import { ApiKeyVerifier } from './api-key-verifier.js';

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  constructor(private readonly verifier: ApiKeyVerifier) {
    super({ passReqToCallback: true });
  }

  /** passport's verify callback. `false` means that the credential is invalid. */
  async validate({ original }: { original: Request }, key: string) {
    const found = await this.verifier.verify(key, original.deadline);
    if (found?.isValid) {
      return found.caller;
    }
    original.rejectedKey = found?.caller.keyId;
    return false;
  }
}
