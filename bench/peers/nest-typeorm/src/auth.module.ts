import { type ExecutionContext, Injectable, Module, UnauthorizedException } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { AuthGuard, PassportModule, PassportStrategy } from '@nestjs/passport';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import type { Response } from 'express';
import { Strategy } from 'passport-http-bearer';
import { Column, Entity, IsNull, PrimaryColumn, Repository } from 'typeorm';
import { ApiKeyCheck } from '../../api-key-check.js';
import { Fault } from '../../contract.js';

@Entity('api_keys')
export class ApiKey {
  @PrimaryColumn('bigint')
  id!: string;

  @Column('bytea')
  hash!: Buffer;

  @Column('timestamp with time zone', { name: 'expires_at', nullable: true })
  expiresAt!: Date | null;

  @Column('timestamp with time zone', { name: 'revoked_at', nullable: true })
  revokedAt!: Date | null;
}

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  private readonly check = new ApiKeyCheck(
    async (hash) => (await this.keys.findOneBy({ hash, revokedAt: IsNull() })) ?? undefined,
  );

  constructor(@InjectRepository(ApiKey) private readonly keys: Repository<ApiKey>) {
    super({ realm: 'animal-store' });
  }

  async validate(key: string): Promise<string | false> {
    return (await this.check.verify(key)) ?? false;
  }
}

@Injectable()
export class BearerGuard extends AuthGuard('bearer') {
  override handleRequest(error: unknown, user: any, _info: unknown, context: ExecutionContext) {
    if (error) {
      throw error;
    }
    if (!user) {
      const http = context.switchToHttp();
      const { authorization } = http.getRequest().headers;
      const { body, headers } = authorization ? Fault.invalidKey() : Fault.missingKey();
      http.getResponse<Response>().set(headers);
      throw new UnauthorizedException(body);
    }
    return user;
  }
}

@Module({
  imports: [PassportModule, TypeOrmModule.forFeature([ApiKey])],
  providers: [BearerStrategy, { provide: APP_GUARD, useClass: BearerGuard }],
})
export class AuthModule {}
