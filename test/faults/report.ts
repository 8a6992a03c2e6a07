/** What a run found, as a table. */

const rows: string[][] = [];

let areTimesJudged = true;

/** Has measures of time reported without their bounds: how long things take on a busy machine says nothing. */
export function judgeNoTimes(): void {
  areTimesJudged = false;
}

/** With at most one bound. */
export interface Measure {
  name: string;
  value: number | string | undefined;
  unit?: string;
  atMost?: number;
  atLeast?: number;
  is?: unknown;
  /** Whether it depends on the speed of the machine, as whatever is in milliseconds does. */
  isTimed?: boolean;
}

/**
 * Notes what became of a promise.
 *
 * @param done what was done to put it to the test.
 */
export function note(promise: string, done: string, measures: Measure[]): void {
  const isHeld = measures.every(isWithin);
  const figures = measures
    .map((it) => `${it.name} ${figure(it.value)}${it.unit ?? ''}${bound(it)}`)
    .join(', ');
  rows.push([promise, done, figures, isHeld ? 'yes' : '**no**']);
  console.error(`${isHeld ? 'held ' : 'BROKEN'} ${done}: ${figures}`);
}

/** Notes that a promise could not be put to the test here, and why. */
export function skip(promise: string, done: string, why: string): void {
  rows.push([promise, done, `not tested: ${why}`, '']);
  console.error(`skipped ${done}: ${why}`);
}

export const allHeld = () => rows.every(([, , , held]) => held !== '**no**');

/** In Markdown, padded as Prettier does. */
export function table(): string {
  const head = ['promise', 'what was done', 'figures (and bounds)', 'held'];
  const shown = rows.map(([promise, ...row], i) => [
    promise === rows[i - 1]?.[0] ? '' : promise!,
    ...row,
  ]);
  const widths = head.map((_, i) => Math.max(3, ...[head, ...shown].map((row) => row[i]!.length)));
  const line = (cells: string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...shown.map(line)].join(
    '\n',
  );
}

function isJudged({ unit, isTimed = unit === ' ms' }: Measure): boolean {
  return areTimesJudged || !isTimed;
}

function isWithin(measure: Measure): boolean {
  const { value, atMost = Infinity, atLeast = -Infinity, is = value } = measure;
  if (!isJudged(measure)) {
    return Number.isFinite(value);
  }
  return value === is && (typeof value !== 'number' || (value >= atLeast && value <= atMost));
}

function bound(measure: Measure): string {
  const { atMost, atLeast, is, unit = '' } = measure;
  if (!isJudged(measure)) {
    return '';
  }
  if (atMost !== undefined) {
    return ` (≤ ${figure(atMost)}${unit})`;
  }
  if (atLeast !== undefined) {
    return ` (≥ ${figure(atLeast)}${unit})`;
  }
  return is === undefined ? '' : ` (${figure(is)})`;
}

function figure(value: unknown): string {
  return typeof value === 'number'
    ? value.toLocaleString('en', { maximumFractionDigits: 1 })
    : String(value);
}
