import { applyDecorators, Header } from '@nestjs/common';
import { type Deprecation, deprecationHeaders } from './deprecation.js';

/**
 * Marks an operation as deprecated: every answer its handler gives, an error that it throws too, carries the
 * {@link deprecationHeaders}. Nest sets them after the guards and before the handler.
 */
export const Deprecated = (deprecation: Deprecation) =>
  applyDecorators(
    ...Object.entries(deprecationHeaders(deprecation)).map(([name, value]) => Header(name, value)),
  );
