// Keeps what a program measured in a document that people write otherwise.
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';

/**
 * @param {string | undefined} file the document; a new one is begun where there is none.
 * @param {string} program it writes between two marks that name it.
 * @returns what writes the section into `file`; it does nothing without one.
 * @throws at once, before anything is measured, where the section has no place there.
 */
export async function sectionWriter(file, program) {
  if (file === undefined) {
    return async () => undefined;
  }
  const marks = [`<!-- begin: ${program} -->`, `<!-- end: ${program} -->`];
  const page = existsSync(file) ? await readFile(file, 'utf8') : `${marks.join('\n')}\n`;
  const [begin, end] = marks.map((mark) => page.indexOf(mark));
  if (begin === -1 || end < begin) {
    throw new Error(`${file} has no place for the tables. Add these lines:\n${marks.join('\n')}`);
  }
  return (section) =>
    writeFile(file, `${page.slice(0, begin)}${marks[0]}\n\n${section}\n${page.slice(end)}`);
}
