import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';
import { INT64_MAX, INT64_MIN } from '../int64.js';
import { IsInt64 } from './decorators.js';

class Box {
  @IsInt64({ message: 'no int64' })
  size!: bigint;
}

describe('IsInt64', () => {
  it.each([
    [0, 0n],
    [-0, 0n],
    [7n, 7n],
    [Number.MAX_SAFE_INTEGER, 9_007_199_254_740_991n],
    [Number.MIN_SAFE_INTEGER, -9_007_199_254_740_991n],
    [INT64_MIN, INT64_MIN],
    [INT64_MAX, INT64_MAX],
  ])('makes a bigint of %p', (size, expected) => {
    const box = plainToInstance(Box, { size });
    expect([box.size, validateSync(box)]).toEqual([expected, []]);
  });

  it.each([0.5, NaN, Infinity, 2 ** 53, '1', '', null, undefined, true])('rejects %p', (size) => {
    expect(validateSync(plainToInstance(Box, { size }))).toHaveLength(1);
  });
});
