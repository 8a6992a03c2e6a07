import { applyDecorators, Header, SetMetadata } from '@nestjs/common';
import { type Deprecation, deprecationHeaders } from './deprecation.js';

/** Metadata of a deprecated handler: its {@link Deprecation}. */
export const DEPRECATION = 'deprecation';

/**
 * Marks an operation as deprecated: every answer its handler gives, an error that it throws too, carries the
 * {@link deprecationHeaders}. Nest sets them after the guards and before the handler.
 */
export const Deprecated = (deprecation: Deprecation) =>
  applyDecorators(
    SetMetadata(DEPRECATION, deprecation),
    ...Object.entries(deprecationHeaders(deprecation)).map(([name, value]) => Header(name, value)),
  );
