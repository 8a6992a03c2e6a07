import { type ArgumentMetadata, Injectable, ValidationPipe } from '@nestjs/common';
import type { ClassConstructor } from 'class-transformer';
import { ApiError } from '../errors/api-error.js';
import { messagesOf, validate } from './validate.js';

/** Makes a DTO of each query and body, and rejects an invalid one with `invalid_request`. */
@Injectable()
export class RequestValidationPipe extends ValidationPipe {
  constructor() {
    super({
      transform: true,
      // Parameters of `@JsonBody` too.
      validateCustomDecorators: true,
      exceptionFactory: (errors) =>
        new ApiError('invalid_request', `${messagesOf(errors).join('; ')}.`),
    });
  }

  /**
   * Replaces Nest's `transform`, which awaits class-transformer and class-validator, and searches the value for nested
   * objects. No DTO here has nested objects, and these steps take half of the time of a validation.
   */
  override transform(value: any, metadata: ArgumentMetadata): any {
    if (metadata.metatype === undefined || !this.toValidate(metadata)) {
      return value;
    }
    const type = metadata.metatype as ClassConstructor<object>;
    const { instance, errors } = validate(type, value);
    if (errors.length > 0) {
      throw this.exceptionFactory(errors);
    }
    return instance;
  }
}
