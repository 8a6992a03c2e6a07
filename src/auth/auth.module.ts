import { Module } from '@nestjs/common';
import { PassportModule } from '@nestjs/passport';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { BearerStrategy } from './bearer.strategy.js';

/** Who may call: API keys. The guard itself is global, registered in AppModule. */
@Module({
  imports: [PassportModule],
  providers: [ApiKeyVerifier, BearerStrategy],
  exports: [ApiKeyVerifier],
})
export class AuthModule {}
