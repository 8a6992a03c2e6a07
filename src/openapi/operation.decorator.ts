import { SetMetadata } from '@nestjs/common';
import type { OpenAPIV3_1 } from 'openapi-types';
import type { ErrorCode } from '../errors/errors.js';

/**
 * The parts of an operation in the OpenAPI document that cannot be read from the code. The operationId is the handler's
 * name. Path, method and status are read from Nest's decorators, and the deprecation from `@Deprecated`. Security is
 * the same for all operations.
 */
export interface OperationDescription {
  tag: OpenAPIV3_1.TagObject;
  summary: string;
  description: string;
  /** The guide that says more. `path` is its path on the service. */
  guide?: { title: string; path: string };
  /** An `experimental` operation can change or be removed without notice. */
  stability: 'stable' | 'experimental';
  /** `false` if a viewer of the document should not offer to send requests. */
  hasTryItPanel?: boolean;
  parameters?: OpenAPIV3_1.ParameterObject[];
  requestBody?: OpenAPIV3_1.RequestBodyObject;
  /** The successful response, without the headers that every response has. */
  success: OpenAPIV3_1.ResponseObject;
  /** The errors that the handler throws, besides those that any operation can respond with. */
  errors?: ErrorCode[];
  /** The schemas that the description refers to, as `#/components/schemas/<name>`. */
  schemas: Record<string, OpenAPIV3_1.SchemaObject>;
}

export const OPERATION = 'operation';

/** Puts the handler into the OpenAPI document. */
export const Operation = (description: OperationDescription) => SetMetadata(OPERATION, description);
