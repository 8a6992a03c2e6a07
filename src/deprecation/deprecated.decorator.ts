import { applyDecorators, SetMetadata, UseInterceptors } from '@nestjs/common';
import { type Deprecation, deprecationHeaders } from './deprecation.js';
import { DEPRECATION_HEADERS, DeprecationInterceptor } from './deprecation.interceptor.js';

/** Marks an operation as deprecated: every answer its handler gives carries the {@link deprecationHeaders}. */
export const Deprecated = (deprecation: Deprecation) =>
  applyDecorators(
    SetMetadata(DEPRECATION_HEADERS, deprecationHeaders(deprecation)),
    UseInterceptors(DeprecationInterceptor),
  );
