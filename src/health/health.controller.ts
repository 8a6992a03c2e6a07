import { Controller, Get } from '@nestjs/common';
import { Public } from '../auth/public.decorator.js';
import { Readiness } from './readiness.js';

@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly readiness: Readiness) {}

  /** 200 whenever the process can respond. If there is no response, restart the process. */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 if the process is ready, else 503. */
  @Get('ready')
  ready() {
    return this.readiness.state();
  }
}
