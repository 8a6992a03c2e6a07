import {
  type ArgumentMetadata,
  Injectable,
  type ValidationError,
  ValidationPipe,
} from '@nestjs/common';
import { type ClassConstructor, plainToInstance } from 'class-transformer';
import { validate } from 'class-validator';
import { ApiError } from '../errors/api-error.js';
import { rememberedQueries } from './decorators.js';

/** How many queries of a class are remembered at most, and how long one may be as JSON. */
const REMEMBERED = { queries: 1_000, characters: 100 };

/** Makes a DTO of each query and body, and rejects an invalid one with `invalid_request`. */
@Injectable()
export class RequestValidationPipe extends ValidationPipe {
  constructor() {
    super({ stopAtFirstError: true, transform: true });
  }

  /** As Nest's, without its search for nested objects where there are none: that takes half of a validation's time. */
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
    const remembered = rememberedQueries.get(metatype);
    if (remembered === undefined || remembered.unless in value) {
      return this.validated(value, metatype);
    }
    const text = JSON.stringify(value);
    const known = remembered.queries.get(text);
    if (known !== undefined) {
      return known;
    }
    const query = Object.freeze(await this.validated(value, metatype));
    if (text.length <= REMEMBERED.characters) {
      if (remembered.queries.size >= REMEMBERED.queries) {
        remembered.queries.clear();
      }
      remembered.queries.set(text, query);
    }
    return query;
  }

  private async validated(value: object, metatype: unknown): Promise<object> {
    this.stripProtoKeys(value);
    const instance = plainToInstance(metatype as ClassConstructor<object>, value);
    const errors = await validate(instance, this.validatorOptions);
    if (errors.length > 0) {
      throw this.exceptionFactory(errors);
    }
    return instance;
  }

  /** `field: message` for each invalid field. A field of a nested DTO is its path, such as `items.0.label`. */
  protected override flattenValidationErrors(errors: ValidationError[], parent = ''): string[] {
    return errors.flatMap(({ property, constraints = {}, children = [] }) => {
      const field = `${parent}${property}`;
      // class-validator's messages begin with `$property`.
      const own = (text: string) => (text.startsWith(`${property} `) ? property.length + 1 : 0);
      return [
        ...Object.values(constraints).map((text) => `${field}: ${text.slice(own(text))}`),
        ...this.flattenValidationErrors(children, `${field}.`),
      ];
    });
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
