/** What a run found, as a table. */

const rows: string[][] = [];

let isBroken = false;
let areTimesJudged = true;

/** Reports times and shares without their limits, because they depend on how busy the machine is. */
export function judgeNoTimes(): void {
  areTimesJudged = false;
}

/** Its limit begins with `=`, `≤` or `≥`, as in `≤ 5,000`. Its unit is `ms`, `%` or `MiB`, if it has one. */
export type Figure = [name: string, value: number | string, limit?: string, unit?: string];

/** Notes what was measured when something was done. */
export function note(done: string, ...figures: Figure[]): void {
  for (const [name, value, limit = '', unit = ''] of figures) {
    const isJudged = limit !== '' && (areTimesJudged || !['ms', '%'].includes(unit));
    const isHeld = !isJudged || isWithin(value, limit);
    isBroken ||= !isHeld;
    const shown =
      typeof value === 'number' ? value.toLocaleString('en', { maximumFractionDigits: 1 }) : value;
    const result = !isJudged ? '' : isHeld ? 'held' : '**broken**';
    report(
      done,
      name,
      `${shown} ${unit}`.trim(),
      isJudged ? `${limit} ${unit}`.trim() : '',
      result,
    );
  }
}

/** Notes that something was not done, and why. */
export const skip = (done: string, why: string) => report(done, `skipped: ${why}`, '', '', '');

function report(...row: string[]): void {
  rows.push(row);
  console.error(row.join(' | '));
}

function isWithin(value: number | string, limit: string): boolean {
  const wanted = limit.slice(2).replaceAll(',', '');
  const [number, bound] = [Number(value), Number(wanted)];
  return { '≤': number <= bound, '≥': number >= bound }[limit[0]!] ?? String(value) === wanted;
}

export const allHeld = () => !isBroken;

/** In Markdown. */
export function table(): string {
  const head = ['what was done', 'what was measured', 'result', 'limit', ''];
  const shown = rows.map(([done, ...row], i) => [done === rows[i - 1]?.[0] ? '' : done, ...row]);
  return [head, head.map(() => '---'), ...shown]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}
