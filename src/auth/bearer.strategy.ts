import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import { Strategy } from 'passport-http-bearer';
import { ApiKeyVerifier } from './api-key-verifier.js';

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  constructor(private readonly verifier: ApiKeyVerifier) {
    super({ passReqToCallback: true });
  }

  /** passport's verify callback. `false` means that the credential is invalid. */
  async validate({ deadline }: { deadline: number }, key: string) {
    return (await this.verifier.verify(key, deadline)) ?? false;
  }
}
