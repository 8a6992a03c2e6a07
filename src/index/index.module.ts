import { Module } from '@nestjs/common';
import { IndexController } from './index.controller.js';

@Module({ controllers: [IndexController] })
export class IndexModule {}
