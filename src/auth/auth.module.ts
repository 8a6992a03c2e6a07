import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { ApiKey } from './api-key.entity.js';
import { BearerStrategy } from './bearer.strategy.js';

@Module({
  imports: [TypeOrmModule.forFeature([ApiKey])],
  providers: [ApiKeyVerifier, BearerStrategy],
  exports: [ApiKeyVerifier],
})
export class AuthModule {}
