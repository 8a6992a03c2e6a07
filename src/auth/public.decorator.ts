import { SetMetadata } from '@nestjs/common';

export const IS_PUBLIC = 'is-public';

/** Marks a controller whose handlers need no API key. */
export const Public = (): ClassDecorator => SetMetadata(IS_PUBLIC, true);
