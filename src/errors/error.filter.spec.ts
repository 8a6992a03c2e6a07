import { ApiError } from './api-error.js';
import { ErrorFilter } from './error.filter.js';

it.each([
  [true, 0],
  [false, 1],
  [undefined, 1],
])('a 503 that is expected (%s) is not logged as a warning', (isExpected, warnings) => {
  const warn = jest.fn();
  const response: any = { locals: {}, getHeader: () => 'id' };
  for (const name of ['removeHeader', 'status', 'set', 'setHeader', 'json']) {
    response[name] = jest.fn(() => response);
  }
  const host = { switchToHttp: () => ({ getResponse: () => response }) };
  const error = new ApiError('unavailable', 'The service is stopping.', { isExpected });
  new ErrorFilter({ warn } as any).catch(error, host as any);
  expect(response.status).toHaveBeenCalledWith(503);
  expect(warn).toHaveBeenCalledTimes(warnings);
});
