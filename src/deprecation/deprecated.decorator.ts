import { applyDecorators, SetMetadata, UseInterceptors } from '@nestjs/common';
import { type Deprecation, DEPRECATION } from './deprecation.js';
import { DeprecationInterceptor } from './deprecation.interceptor.js';

/** Marks an operation as deprecated: in the headers of its responses, and in the OpenAPI document. */
export const Deprecated = (deprecation: Deprecation) =>
  applyDecorators(SetMetadata(DEPRECATION, deprecation), UseInterceptors(DeprecationInterceptor));
