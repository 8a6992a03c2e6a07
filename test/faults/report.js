/** What a run found, as a table. */

/** @type {string[][]} */
const rows = [];

let areTimesJudged = true;

/** Has measures of time reported without their bounds: how long things take on a busy machine says nothing. */
export function judgeNoTimes() {
  areTimesJudged = false;
}

/**
 * @typedef {object} Measure with at most one bound.
 * @property {string} name
 * @property {any} value
 * @property {string} [unit]
 * @property {number} [atMost]
 * @property {number} [atLeast]
 * @property {unknown} [is]
 * @property {boolean} [isTimed] where it depends on the speed of the machine, as whatever is in milliseconds does.
 */

/**
 * Notes what became of a promise.
 *
 * @param {string} promise what is promised.
 * @param {string} done what was done to put it to the test.
 * @param {Measure[]} measures
 */
export function note(promise, done, measures) {
  const isHeld = measures.every(isWithin);
  rows.push([
    promise,
    done,
    measures.map((it) => `${it.name} ${figure(it.value)}${it.unit ?? ''}${bound(it)}`).join(', '),
    isHeld ? 'yes' : '**no**',
  ]);
  console.error(`${isHeld ? 'held ' : 'BROKEN'} ${rows[rows.length - 1].slice(1, 3).join(': ')}`);
}

/**
 * Notes that a promise could not be put to the test here, and why.
 *
 * @param {string} promise
 * @param {string} done
 * @param {string} why
 */
export function skip(promise, done, why) {
  rows.push([promise, done, `not tested: ${why}`, '']);
  console.error(`skipped ${done}: ${why}`);
}

export const allHeld = () => rows.every(([, , , held]) => held !== '**no**');

/** In Markdown, padded as Prettier does. */
export function table() {
  const head = ['promise', 'what was done', 'figures (and bounds)', 'held'];
  const shown = rows.map((row, i) => [row[0] === rows[i - 1]?.[0] ? '' : row[0], ...row.slice(1)]);
  const widths = head.map((_, i) => Math.max(3, ...[head, ...shown].map((row) => row[i].length)));
  const line = (cells) => `| ${cells.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...shown.map(line)].join(
    '\n',
  );
}

/** @param {Measure} measure */
function isJudged({ unit, isTimed = unit === ' ms' }) {
  return areTimesJudged || !isTimed;
}

/** @param {Measure} measure */
function isWithin(measure) {
  const { value, atMost = Infinity, atLeast = -Infinity, is = value } = measure;
  if (!isJudged(measure)) {
    return Number.isFinite(value);
  }
  return value === is && (typeof value !== 'number' || (value >= atLeast && value <= atMost));
}

/** @param {Measure} measure */
function bound(measure) {
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

function figure(value) {
  return typeof value === 'number'
    ? value.toLocaleString('en', { maximumFractionDigits: 1 })
    : String(value);
}
