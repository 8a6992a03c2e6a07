import { Controller, Get, Module, Param, Post } from '@nestjs/common';

/** The names of all requests that came into a handler of {@link HeldModule}, in that order. */
export const started: string[] = [];

/** Those whose handlers have not ended, and what ends all of the name. */
export const held = new Map<string, () => void>();

function hold(name: string): Promise<void> {
  started.push(name);
  const endOthers = held.get(name);
  return new Promise((resolve) => {
    held.set(name, () => {
      held.delete(name);
      endOthers?.();
      resolve();
    });
  });
}

@Controller()
class HeldController {
  @Get('held/:name')
  get(@Param('name') name: string): Promise<void> {
    return hold(name);
  }

  @Post('held/:name')
  create(@Param('name') name: string): Promise<void> {
    return hold(name);
  }

  @Get('noted/:name')
  note(@Param('name') name: string): void {
    started.push(name);
  }
}

/** Has handlers at `/held/NAME` that wait until the test ends them, and one at `/noted/NAME` that does not. */
@Module({ controllers: [HeldController] })
export class HeldModule {}
