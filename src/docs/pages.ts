import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked } from 'marked';
import { PROJECT_ROOT } from '../config/project-root.js';

/** The guides, `docs/guides/<name>.md`, in the order in which pages list them. */
const GUIDES = [
  'getting-started',
  'authentication',
  'pagination',
  'errors',
  'retries',
  'generated-clients',
  'deprecation',
];

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
      const anchor = text
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
        .replaceAll(' ', '-');
      const content = this.parser.parseInline(tokens);
      return depth === 1
        ? `<h1>${content}</h1>\n`
        : `<h${depth} id="${anchor}"><a href="#${anchor}">${content}</a></h${depth}>\n`;
    },
  },
});

/** @returns the HTML of every page, by its path: `docs` and `docs/guides/<name>`. */
export function renderPages(): Map<string, string> {
  const guides = GUIDES.map((name) => {
    const text = readFileSync(join(PROJECT_ROOT, 'docs/guides', `${name}.md`), 'utf8');
    // A sample that is wider than the page can be scrolled with the keyboard.
    const html = markdown.parse(text, { async: false }).replaceAll('<pre>', '<pre tabindex="0">');
    return { path: `docs/guides/${name}`, title: /^# (.+)$/m.exec(text)![1]!, html };
  });
  const links = [{ path: 'docs', title: 'Reference' }, ...guides];
  const pages = guides.map(({ path, title, html }): [string, string] => [
    path,
    page({
      path,
      links,
      title: `${title} · Animal Store Service`,
      head: '<script type="module" src="../../docs/assets/guide.js"></script>',
      main: `<main id="main" class="guide">\n${html}</main>`,
    }),
  ]);
  return new Map([['docs', referencePage(links)], ...pages]);
}

type Link = { path: string; title: string };

const referencePage = (links: Link[]): string =>
  page({
    path: 'docs',
    links,
    title: 'Animal Store Service',
    head: `<link rel="stylesheet" href="./docs/assets/swagger-ui.css">
<link rel="stylesheet" href="./docs/assets/reference.css">
<script defer src="./docs/assets/swagger-ui-bundle.js"></script>
<script type="module" src="./docs/assets/reference.js"></script>`,
    main: `<main id="main">
<noscript><p>This page needs JavaScript; <a href="./openapi.json">the OpenAPI document</a> does not.</p></noscript>
</main>`,
  });

/** Addresses are relative to the page, so that they work behind any proxy. */
function page(content: { path: string; links: Link[]; title: string; head: string; main: string }) {
  const { path, links, title, head, main } = content;
  const root = path === 'docs' ? './' : '../../';
  const link = (to: Link) =>
    `<a href="${root}${to.path}"${to.path === path ? ' aria-current="page"' : ''}>${to.title}</a>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" type="image/svg+xml" href="${root}docs/assets/icon.svg">
<link rel="stylesheet" href="${root}docs/assets/docs.css">
${head}
</head>
<body>
<header>
<a class="skip" href="#main">Skip to the content</a>
<a class="home" href="${root}docs"><img src="${root}docs/assets/icon.svg" width="28" height="28" alt="">Animal Store Service</a>
${links.map(link).join('\n')}
<a href="${root}openapi.json">OpenAPI</a>
</header>
${main}
</body>
</html>
`;
}
