import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { POOL_SIZE } from '../../contract.js';
import { AuthModule } from './auth.module.js';
import { PetsModule } from './pets.module.js';

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: process.env['DATABASE_URL']!,
      poolSize: POOL_SIZE,
      autoLoadEntities: true,
      installExtensions: false,
    }),
    AuthModule,
    PetsModule,
  ],
})
export class AppModule {}
