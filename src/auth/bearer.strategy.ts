import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { Strategy } from 'passport-http-bearer';
import type { Caller } from '../http/request.js';
import { ApiKeyVerifier } from './api-key-verifier.js';

/** The protection space that a 401 names (RFC 9110, section 11.5). */
export const REALM = 'animal-store';

/** passport's strategy for an API key that is sent as a bearer token (interface, part 5). */
@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  constructor(private readonly verifier: ApiKeyVerifier) {
    super({ realm: REALM });
  }

  /** passport's verify callback. `false` means that the credential is invalid. */
  async validate(key: string): Promise<Caller | false> {
    return (await this.verifier.verify(key)) ?? false;
  }
}
