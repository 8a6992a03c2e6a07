import { Module } from '@nestjs/common';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { BearerStrategy } from './bearer.strategy.js';

/** Authentication with API keys. AppModule registers the guard globally. */
@Module({
  providers: [ApiKeyVerifier, BearerStrategy],
  exports: [ApiKeyVerifier],
})
export class AuthModule {}
