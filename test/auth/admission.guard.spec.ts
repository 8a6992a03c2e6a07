import { AdmissionGuard } from '../../src/auth/admission.guard.js';
import { HttpLimits } from '../../src/http/limits.js';
import { FakeResponse } from '../support/fake-response.js';

describe('AdmissionGuard', () => {
  const limits = Object.assign(new HttpLimits(), { requests: 200, unreadBytes: 1_000 });
  let guard: AdmissionGuard;
  beforeEach(() => {
    guard = new AdmissionGuard(limits);
  });

  /** A request of the key comes. @returns its response, or the error that it got. */
  function come(keyId: string, destroyed = false): any {
    const request = { user: { keyId }, socket: { destroyed } };
    const response = new FakeResponse();
    const context = { getArgByIndex: (i: number) => [request, response][i] };
    try {
      guard.canActivate(context as any);
      return response;
    } catch (error) {
      return error;
    }
  }

  const comeOften = (count: number, keyId: string) =>
    Array.from({ length: count }, () => come(keyId));
  const overloaded = { code: 'unavailable', message: 'The service is overloaded; try again.' };

  it('gives one key half of all requests, and another the other half', () => {
    const [first] = comeOften(100, '1');
    expect(come('1')).toMatchObject(overloaded);
    expect(comeOften(100, '2').filter((one) => one instanceof Error)).toEqual([]);
    expect(come('3')).toMatchObject(overloaded);
    first.end();
    expect(come('1')).toMatchObject(overloaded);
    first.close();
    expect(come('1')).not.toMatchObject(overloaded);
  });

  it('counts no request of a client that has left, and forgets keys that have none', () => {
    comeOften(100, '1').forEach((one) => one.close());
    expect(guard['byKey'].size).toBe(0);
    Array.from({ length: 100 }, () => come('1', true));
    expect(come('1')).toBeInstanceOf(FakeResponse);
  });

  it('rejects a key whose clients do not read half of the bytes that may wait, and then any key', () => {
    const leave = (responses: any[], bytes: number) =>
      responses.forEach((one) => Object.assign(one, { bytes }).end());
    const [those, others] = [comeOften(80, '1'), comeOften(80, '2')];
    leave(those, 7);
    expect(come('1')).toMatchObject(overloaded);
    leave(others.slice(0, 30), 14);
    expect(come('2')).not.toMatchObject(overloaded);
    leave(others.slice(30, 40), 14);
    expect(come('3')).toMatchObject(overloaded);
    those.forEach((one) => one.close());
    expect(come('1')).not.toMatchObject(overloaded);
  });
});
