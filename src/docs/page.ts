import type { Assets } from './assets.js';
import type { Guide } from './guides.js';

/** The parts that differ from page to page. `head` and `main` are HTML. */
interface Page {
  title: string;
  /** The relative path from the page to `/`, with a slash at its end. Relative addresses work behind any proxy. */
  root: string;
  head?: string;
  main: string;
}

/** @returns functions that make the HTML of the reference page and of a guide. */
export function pageMaker(assets: Assets, guides: readonly Guide[]) {
  const html = ({ title, root, head = '', main }: Page, current: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title}</title>
<meta name="description" content="A store of animals over HTTP: reference and guides.">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" type="image/svg+xml" href="${root}docs/assets/${assets.icon.path}">
<link rel="stylesheet" href="${root}docs/assets/${assets.style.path}">
${head}</head>
<body>
<header>
<a class="home" href="${root}docs"><img src="${root}docs/assets/${assets.icon.path}" alt="">Animal Store Service</a>
<nav>
${[
  { path: 'docs', title: 'Reference' },
  ...guides.map(({ name, title }) => ({ path: `docs/guides/${name}`, title })),
]
  .map(
    ({ path, title }) =>
      `<a href="${root}${path}"${path === current ? ' aria-current="page"' : ''}>${title}</a>`,
  )
  .join('\n')}
<a href="${root}openapi.json">OpenAPI</a>
</nav>
</header>
${main}
</body>
</html>
`;

  return {
    reference(): string {
      const root = './';
      const { referenceStyle, referenceScript, swaggerUi, swaggerUiStyle } = assets;
      return html(
        {
          title: 'Animal Store Service',
          root,
          head: `<link rel="stylesheet" href="${root}docs/assets/${swaggerUiStyle.path}">
<link rel="stylesheet" href="${root}docs/assets/${referenceStyle.path}">
<script defer src="${root}docs/assets/${swaggerUi.path}"></script>
<script defer src="${root}docs/assets/${referenceScript.path}"></script>
`,
          main: `<main id="reference">
<noscript><p>This page needs JavaScript; <a href="${root}openapi.json">the OpenAPI document</a> does not.</p></noscript>
</main>`,
        },
        'docs',
      );
    },

    guide({ name, title, html: main }: Guide): string {
      return html(
        {
          title: `${title} · Animal Store Service`,
          root: '../../',
          head: `<script defer src="../../docs/assets/${assets.guideScript.path}"></script>\n`,
          main: `<main class="guide">\n${main}</main>`,
        },
        `docs/guides/${name}`,
      );
    },
  };
}
