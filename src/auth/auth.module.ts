import { Module } from '@nestjs/common';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { BearerStrategy } from './bearer.strategy.js';

@Module({
  providers: [ApiKeyVerifier, BearerStrategy],
  exports: [ApiKeyVerifier],
})
export class AuthModule {}
