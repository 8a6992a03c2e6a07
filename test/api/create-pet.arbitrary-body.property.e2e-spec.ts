import fc from 'fast-check';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

describe('createPet with arbitrary bodies', () => {
  const service = serviceOfTests();

  const answersCleanly = async (body: string | Uint8Array) => {
    const { status, text } = await send(service, {
      headers: { 'Content-Type': 'application/json' },
      body,
    });
    expect([201, 400]).toContain(status);
    expect(Object.keys(JSON.parse(text))).toEqual(
      status === 201 ? ['id', 'name', 'categoryId', 'status'] : ['code', 'message', 'status'],
    );
  };

  it('answers 201 or 400 to any JSON values in the fields of a pet', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record(
          { name: fc.jsonValue(), categoryId: fc.jsonValue(), status: fc.jsonValue() },
          { requiredKeys: [] },
        ),
        (pet) => answersCleanly(JSON.stringify(pet)),
      ),
      { numRuns: 500 },
    ));

  it('answers 201 or 400 to any bytes', () =>
    fc.assert(fc.asyncProperty(fc.uint8Array({ maxLength: 100 }), answersCleanly), {
      numRuns: 200,
    }));
});
