import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked } from 'marked';
import { PROJECT_ROOT } from '../config/project-root.js';

/** A guide, as read from `docs/guides/<name>.md`. */
export interface Guide {
  name: string;
  /** Its first heading. */
  title: string;
  html: string;
}

/** In the order in which pages list them. */
const NAMES = [
  'getting-started',
  'authentication',
  'pagination',
  'errors',
  'retries',
  'generated-clients',
  'deprecation',
] as const;

const markdown = new Marked({
  renderer: {
    /**
     * In the repository, guides link to each other as `.md` files. On the service, these links have no `.md`. Links to
     * other files (`../…`) become plain text, because the service does not have these files.
     */
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      const target = href.replace(/\.md(?=#|$)/, '');
      return href.startsWith('../') ? text : `<a href="${target}">${text}</a>`;
    },
    /** A section has the same anchor as on GitHub and GitLab, and its heading links to the section. */
    heading({ depth, tokens, text }) {
      const content = this.parser.parseInline(tokens);
      if (depth === 1) {
        return `<h1>${content}</h1>\n`;
      }
      const anchor = text
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-');
      return `<h${depth} id="${anchor}"><a href="#${anchor}">${content}</a></h${depth}>\n`;
    },
  },
});

/** @returns every guide, rendered. */
export function loadGuides(): Guide[] {
  return NAMES.map((name) => {
    const text = readFileSync(join(PROJECT_ROOT, 'docs/guides', `${name}.md`), 'utf8');
    const tokens = markdown.lexer(text);
    const heading = tokens.find(({ type }) => type === 'heading') as { text: string };
    // A sample that is wider than the page can be scrolled with the keyboard.
    const html = markdown.parser(tokens).replaceAll('<pre>', '<pre tabindex="0">');
    return { name, title: heading.text, html };
  });
}
