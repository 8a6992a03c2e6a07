import { SetMetadata } from '@nestjs/common';

export const IS_PUBLIC = 'is-public';

/** Marks a controller or a handler that needs no API key. */
export const Public = () => SetMetadata(IS_PUBLIC, true);
