import { SetMetadata } from '@nestjs/common';
import type { OpenAPIV3_1 } from 'openapi-types';
import type { ErrorCode } from '../errors/errors.js';

/**
 * What the OpenAPI document says of an operation and the code does not say already. Its operationId is the handler's
 * name; its path, method and status are read from Nest's own decorators, its deprecation from `@Deprecated`. Security
 * is the same for all.
 */
export interface OperationDescription {
  tag: OpenAPIV3_1.TagObject;
  summary: string;
  description: string;
  /** The guide that says more: its path on the service. */
  guide?: { title: string; path: string };
  /** `experimental`: may change or go without notice. */
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
