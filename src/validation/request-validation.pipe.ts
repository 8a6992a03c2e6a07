import { type ArgumentMetadata, Injectable, ValidationPipe } from '@nestjs/common';
import { type ClassConstructor, plainToInstance } from 'class-transformer';
import { validate } from 'class-validator';
import { ApiError } from '../errors/api-error.js';

/** Makes a DTO of each query and body, and rejects an invalid one with `invalid_request`. */
@Injectable()
export class RequestValidationPipe extends ValidationPipe {
  constructor() {
    super({
      stopAtFirstError: true,
      transform: true,
      exceptionFactory: (errors) =>
        new ApiError('invalid_request', `${this.flattenValidationErrors(errors).join('; ')}.`),
    });
  }

  /**
   * As Nest's, which also looks for nested objects, copies and binary values. These steps take half of the time of a
   * validation, so they are left out for a value without nested objects.
   *
   * @throws ApiError `invalid_json` if there is no body; `invalid_request` if the body is not an object where the
   *   handler takes a class, or if a field is invalid.
   */
  override async transform(value: any, metadata: ArgumentMetadata): Promise<any> {
    const { metatype, type } = metadata;
    if (metatype === undefined || !this.toValidate(metadata)) {
      return super.transform(value, metadata);
    }
    if (type === 'body') {
      requireObject(value);
    }
    if (typeof value !== 'object' || value === null || hasNested(value)) {
      return super.transform(value, metadata);
    }
    this.stripProtoKeys(value);
    const instance = plainToInstance(metatype as ClassConstructor<object>, value);
    const errors = await validate(instance, this.validatorOptions);
    if (errors.length > 0) {
      throw this.exceptionFactory(errors);
    }
    return instance;
  }
}

const hasNested = (value: object) =>
  Object.values(value).some((field) => typeof field === 'object' && field !== null);

function requireObject(body: unknown): void {
  if (body === undefined) {
    throw new ApiError('invalid_json', 'A JSON body is required.');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ApiError('invalid_request', 'The body must be a JSON object.');
  }
}
