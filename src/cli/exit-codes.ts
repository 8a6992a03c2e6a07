/** Formats the meanings of a command's exit codes for the end of its help. */
export function exitCodes(meanings: Readonly<Record<number, string>>): string {
  const lines = Object.entries(meanings).map(([code, meaning]) => `  ${code}  ${meaning}`);
  return `\nExit codes:\n${lines.join('\n')}`;
}
