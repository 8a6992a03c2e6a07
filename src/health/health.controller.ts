import { Controller, Get, Req } from '@nestjs/common';
import { Public } from '../auth/public.decorator.js';
import type { Request } from '../http/express-classes.js';
import { HealthService } from './health.service.js';

@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly health: HealthService) {}

  /** 200 whenever the process can respond. If there is no response, restart the process. */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 if listPets, createPet and getPet can be served. */
  @Get('ready')
  ready(@Req() { deadline }: Request) {
    return this.health.ready(deadline);
  }
}
