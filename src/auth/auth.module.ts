import { Module } from '@nestjs/common';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { BearerStrategy } from './bearer.strategy.js';

/** Who may call: API keys. The guard itself is global, registered in AppModule. */
@Module({
  providers: [ApiKeyVerifier, BearerStrategy],
  exports: [ApiKeyVerifier],
})
export class AuthModule {}
