import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked } from 'marked';
import { PROJECT_ROOT } from '../config/project-root.js';

/** The guides, `docs/guides/<name>.md`, in the order in which pages list them, and `docs/interface.md`. */
const GUIDES =
  'getting-started authentication pagination errors retries web-pages generated-clients deprecation not-supported';

const markdown = new Marked({
  renderer: {
    /** The service serves guides without `.md`, in one folder. Links to other files of the repository become text. */
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      const [, name, anchor = ''] =
        /^(?:\.\.\/|guides\/)?([\w-]*?)(?:\.md)?(#.*)?$/.exec(href) ?? [];
      const isGuide = name === '' || name === 'interface' || ` ${GUIDES} `.includes(` ${name} `);
      return isGuide || href.includes(':')
        ? `<a href="${isGuide ? `${name}${anchor}` : href}">${text}</a>`
        : text;
    },
    /** A section has the same anchor as on GitHub and GitLab, and its heading links to the section. */
    heading({ depth, tokens, text }) {
      const anchor = text
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-');
      const content = this.parser.parseInline(tokens);
      return `<h${depth} id="${anchor}"><a href="#${anchor}">${content}</a></h${depth}>\n`;
    },
  },
});

const htmlOf = (text: string) => markdown.parse(text, { async: false });

const viewOf = (name: string) => readFileSync(join(PROJECT_ROOT, 'views', name), 'utf8');

function readGuide(name: string) {
  const folder = name === 'interface' ? 'docs' : 'docs/guides';
  const text = readFileSync(join(PROJECT_ROOT, folder, `${name}.md`), 'utf8');
  // A sample that is wider than the page can be scrolled with the keyboard.
  const html = htmlOf(text).replaceAll('<pre>', '<pre tabindex="0">');
  return {
    path: `docs/guides/${name}`,
    title: /^# (.+)$/m.exec(text)![1]!,
    body: `<main id="main" class="guide">\n${html}</main>\n<script type="module" src="../../docs/assets/guide.js"></script>`,
  };
}

/**
 * The path and the HTML of every page. Addresses in it are relative, so that they work behind any proxy.
 *
 * @param text of the reference page, in Markdown. It is seen before Swagger UI has loaded.
 */
export function* renderPages(text: string): Generator<[path: string, html: string]> {
  const body = viewOf('reference.html').replace('{text}', () => htmlOf(text));
  const reference = { path: 'docs', title: 'Reference', body };
  const pages = [reference, ...`${GUIDES} interface`.split(' ').map(readGuide)];
  for (const page of pages) {
    const root = page === reference ? './' : '../../';
    const links = pages.map(
      (to) =>
        `<a href="${root}${to.path}"${to === page ? ' aria-current="page"' : ''}>${to.title}</a>`,
    );
    const values: Record<string, string> = { ...page, root, links: links.join('\n') };
    const html = viewOf('page.html').replaceAll(/\{(\w+)\}/g, (_name, name) => values[name]!);
    yield [page.path, html];
  }
}
