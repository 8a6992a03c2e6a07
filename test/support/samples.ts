import { basename } from 'node:path';
import { lexer, type Tokens } from 'marked';
import { inFolder, read } from './documents.js';

export const GUIDES = inFolder('docs/guides').map((file) => basename(file, '.md'));

export const readGuide = (name: string) => read(`docs/guides/${name}.md`);

export interface Sample {
  language: string;
  /** Its name, if it is one of several files that belong together: the second word behind the fence. */
  file?: string;
  code: string;
  output?: Tokens.Code;
}

/** What a sample prints, below it. In text, `…` stands for anything; in JSON, white space means nothing. */
const OUTPUTS = ['text', 'json'];

export function samplesOf(name: string): Sample[] {
  const samples: Sample[] = [];
  let before: Tokens.Generic | undefined;
  for (const token of lexer(readGuide(name)).filter(({ type }) => type !== 'space')) {
    if (token.type === 'code') {
      const { lang = '', text: code } = token as Tokens.Code;
      const [language = '', file] = lang.split(' ');
      if (OUTPUTS.includes(language) && before?.type === 'code') {
        samples.at(-1)!.output = token as Tokens.Code;
      } else {
        samples.push({ language, ...(file && { file }), code });
      }
    }
    before = token;
  }
  return samples;
}
