import type { Abstract, Provider, Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { ENGINE, type Engine } from './engine.js';

/** Provides the class of the engine. It is apart from it, so that commands do not load Nest. */
export const forEngine = <T>(token: Abstract<T>, classes: Record<Engine, Type<T>>): Provider => ({
  provide: token,
  useFactory: (engine: Engine, module: ModuleRef) => module.create(classes[engine]),
  inject: [ENGINE, ModuleRef],
});
