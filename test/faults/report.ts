/** What a run found, as a table. */

const rows: string[][] = [];

let isBroken = false;
let areTimesJudged = true;

/** Reports times and shares without their limits, because they depend on how busy the machine is. */
export function judgeNoTimes(): void {
  areTimesJudged = false;
}

/** Its limit begins with `=`, `≤` or `≥`, as in `≤ 5,000`. Its unit is `ms`, `%` or `MiB`, if it has one. */
export type Figure = [name: string, value: number, limit?: string, unit?: string];

/** Notes what was measured when something was done. */
export function note(done: string, ...figures: Figure[]): void {
  for (const [name, value, limit = '', unit = ''] of figures) {
    const shown = value.toLocaleString('en', { maximumFractionDigits: 1 });
    const result = `${shown} ${unit}`.trim();
    if (limit === '' || (!areTimesJudged && ['ms', '%'].includes(unit))) {
      report(done, name, result);
    } else {
      const isHeld = isWithin(value, limit);
      isBroken ||= !isHeld;
      report(done, name, result, `${limit} ${unit}`.trim(), isHeld ? 'held' : '**broken**');
    }
  }
}

/** Notes that something was not done, and why. */
export const skip = (done: string, why: string) => report(done, `skipped: ${why}`);

function report(done: string, measured: string, result = '', limit = '', isHeld = ''): void {
  const row = [done, measured, result, limit, isHeld];
  rows.push(row);
  console.error(row.join(' | '));
}

function isWithin(value: number, limit: string): boolean {
  const bound = Number(limit.slice(2).replaceAll(',', ''));
  const compared = { '=': value === bound, '≤': value <= bound, '≥': value >= bound };
  return compared[limit[0] as keyof typeof compared];
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
