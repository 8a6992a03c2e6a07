import { Reflector } from '@nestjs/core';

/** A handler, or all of a controller, needs no API key. */
export const Public = Reflector.createDecorator<void, true>({ transform: () => true });
