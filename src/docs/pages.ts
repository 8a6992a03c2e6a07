import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked } from 'marked';
import { PROJECT_ROOT } from '../config/project-root.js';

/** The guides, `docs/guides/<name>.md`, in the order in which pages list them. */
const GUIDES =
  'getting-started authentication pagination errors retries generated-clients deprecation';

const markdown = new Marked({
  renderer: {
    /** The service serves guides without `.md`. It does not serve other files, so links to them, `../…`, become text. */
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
      return `<h${depth} id="${anchor}"><a href="#${anchor}">${content}</a></h${depth}>\n`;
    },
  },
});

// Swagger UI puts its own `main` in place of the text. Its style sheets are last, because they would delay the text.
const REFERENCE = {
  path: 'docs',
  title: 'Reference',
  head: `<link rel="preload" href="./openapi.json" as="fetch" crossorigin>
<script defer src="./docs/assets/swagger-ui-bundle.js"></script>
<script type="module" src="./docs/assets/reference.js"></script>`,
  body: `<div id="main" tabindex="-1"><main class="guide"><p>Each operation of the service with its parameters, responses and errors.
To send requests from this page, enter an API key. The guides show how to begin. This page needs JavaScript;
<a href="./openapi.json">the OpenAPI document</a> does not.</p></main></div>
<link rel="stylesheet" href="./docs/assets/swagger-ui.css">
<link rel="stylesheet" href="./docs/assets/reference.css">`,
};

function readGuide(name: string) {
  const text = readFileSync(join(PROJECT_ROOT, 'docs/guides', `${name}.md`), 'utf8');
  // A sample that is wider than the page can be scrolled with the keyboard.
  const html = markdown.parse(text, { async: false }).replaceAll('<pre>', '<pre tabindex="0">');
  return {
    path: `docs/guides/${name}`,
    title: /^# (.+)$/m.exec(text)![1]!,
    head: '<script type="module" src="../../docs/assets/guide.js"></script>',
    body: `<main id="main" class="guide">\n${html}</main>`,
  };
}

/** The path and the HTML of every page. Addresses in it are relative, so that they work behind any proxy. */
export function* renderPages(): Generator<[path: string, html: string]> {
  const pages = [REFERENCE, ...GUIDES.split(' ').map(readGuide)];
  for (const page of pages) {
    const root = page === REFERENCE ? './' : '../../';
    const links = pages.map(
      (to) =>
        `<a href="${root}${to.path}"${to === page ? ' aria-current="page"' : ''}>${to.title}</a>`,
    );
    const html = `<!doctype html>
<html lang="en"><head>
<meta charset="utf-8">
<title>${page.title} · Animal Store Service</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" type="image/svg+xml" href="${root}docs/assets/icon.svg">
<link rel="stylesheet" href="${root}docs/assets/docs.css">
${page.head}
</head>
<body>
<header>
<a class="skip" href="#main">Skip to the content</a>
<a class="home" href="${root}docs"><img src="${root}docs/assets/icon.svg" width="28" height="28" alt="">Animal Store Service</a>
${links.join('\n')}
<a href="${root}openapi.json">OpenAPI</a>
</header>
${page.body}
</body></html>
`;
    yield [page.path, html];
  }
}
