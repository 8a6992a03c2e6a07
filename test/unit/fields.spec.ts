import { Field, oneOf, OptionalField, readFields } from '../../src/fields.js';

class Cage {
  @Field((given) => (typeof given === 'string' ? Number(given) : undefined), 'must be a text')
  bars!: number;

  @Field(oneOf(['open', 'shut']), 'must be open or shut')
  door = 'shut';

  @OptionalField(oneOf([true, false]), 'must be true or false')
  roof?: boolean;

  @OptionalField((given) => given, 'must be anything')
  toString!: () => string;
}

describe('readFields', () => {
  it.each([
    [{ bars: '7' }, { bars: 7, door: 'shut', roof: undefined }],
    [
      { bars: '7', door: 'open', roof: false },
      { bars: 7, door: 'open', roof: false },
    ],
    [
      { bars: '7', door: undefined, walls: 4, __proto__: { roof: true } },
      { bars: 7, door: 'shut', roof: undefined },
    ],
  ])('makes an instance of what is given, its own and declared: %j', (given, expected) => {
    const { instance, faults } = readFields(Cage, given);
    expect(faults).toEqual([]);
    expect(instance).toBeInstanceOf(Cage);
    expect({ ...instance, toString: undefined }).toEqual({ ...expected, toString: undefined });
  });

  it('names every field at fault, in the order of the class', () => {
    expect(readFields(Cage, { roof: null, door: null }).faults).toEqual([
      'bars must be a text',
      'door must be open or shut',
      'roof must be true or false',
    ]);
  });
});
