// Shows /openapi.json on the reference page. The addresses are relative to the page's: it works behind any proxy.

const reference = document.querySelector('#main');

/** What this page changes in Swagger UI. */
const corrections = ({ React: { createElement: element, Fragment } }) => ({
  statePlugins: {
    spec: {
      wrapActions: {
        /** Before it shows anything, the original resolves the security schemes, for which it reads all of the document. */
        requestResolvedSubtree: (original) => (path) =>
          path.includes('securitySchemes') ? undefined : original(path),
        /** The original names CORS and more as possible reasons. */
        setResponse: (original) => (path, method, response) =>
          original(
            path,
            method,
            // Another error came before anything was sent, such as that of a key which no header can hold.
            response.error &&
              response.err.response === undefined &&
              /Failed to fetch|Load failed|NetworkError/.test(response.err.message)
              ? { ...response, err: { name: '', message: 'The service cannot be reached.' } }
              : response,
          ),
      },
      wrapSelectors: {
        allowTryItOutFor: (original, system) => (state, path, method) =>
          original(state, path, method) &&
          system.specSelectors.specJson().getIn(['paths', path, method, 'x-hideTryItPanel']) !==
            true,
      },
    },
  },
  wrapComponents: {
    /** Why there is no button. */
    parameters: (Original, system) => (props) => {
      const isHidden =
        props.specPath &&
        system.specSelectors
          .specJson()
          .getIn([...props.specPath.slice(0, 3), 'x-hideTryItPanel']) === true;
      const note = 'This page sends no requests of this operation, because it is experimental.';
      return isHidden
        ? element(
            Fragment,
            null,
            element('p', { className: 'not-sent' }, note),
            element(Original, { ...props, tryItOutEnabled: false, allowTryItOut: false }),
          )
        : element(Original, props);
    },
    /** The path of an operation is in a button, which may hold no link. */
    DeepLink: () => (props) => props.text,
    /** Not before the operation is loaded: the original would fail, and could not be used again. */
    execute: (Original) => (props) =>
      props.operation.has('operationId') && element(Original, props),
    /** With a badge that says what is not stable. */
    OperationSummaryPath: (Original, system) => (props) => {
      const operation = system.specSelectors.specJson().getIn(props.specPath);
      const stability = operation.get('x-stability');
      const badge = stability !== 'stable' && element('span', { className: 'badge' }, stability);
      return element(Fragment, null, element(Original, props), badge);
    },
    /** The original parses JSON to indent it, which rounds its numbers. */
    responseBody: (Original, system) => (props) =>
      /\bjson\b/.test(props.contentType)
        ? element(
            system.getComponent('HighlightCode', true),
            { language: 'json', canCopy: true },
            indented(props.content),
          )
        : element(Original, props),
  },
});

/** @returns JSON text with line breaks and all its digits; the text unchanged if the browser cannot keep the digits. */
function indented(json) {
  const keepDigits = (_key, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value;
  return JSON.rawJSON === undefined ? json : JSON.stringify(JSON.parse(json, keepDigits), null, 2);
}

/**
 * A reviver for JSON.parse. It leaves out the bounds of int64, which a number of JavaScript would round, and examples
 * of headers, which the page would send with every request.
 */
function fitForPage(key, value) {
  const isRounded = ['minimum', 'maximum'].includes(key) && !Number.isSafeInteger(value);
  const isHeaderExample = key === 'example' && this.in === 'header';
  // Each error would repeat them: the guides describe them once.
  const isOfError =
    key === 'headers' && this.content?.['application/json']?.schema?.$ref?.endsWith('Error');
  return isRounded || isHeaderExample || isOfError ? undefined : value;
}

/** The names for screen readers that Swagger UI does not give. */
const NAMES = {
  '#servers': () => 'Server',
  'textarea.body-param__text': () => 'Request body',
  '.examples-select-element': () => 'Example',
  // With a name, they are landmarks.
  '.information-container section': () => 'The service',
  '.scheme-container section': () => 'Server and authorization',
  '.responses-table': (table) =>
    `Responses of ${table.closest('.opblock').querySelector('.opblock-summary-operation-id').textContent}`,
  '.close-modal': () => 'Close',
  '.auth-container input': () => 'API key',
  // Its own name differs from the text that is seen.
  '.auth-btn-wrapper button[aria-label]': (button) => button.textContent,
  '[data-param-name] :is(input, select)': (control) =>
    control.closest('[data-param-name]').dataset.paramName,
};

/** The levels of headings that Swagger UI skips; the last that matches counts. */
const LEVELS = { h3: 2, h4: 3, '.models > h4': 2, '.response h4, h5': 4 };

function makeAccessible() {
  for (const [selector, nameOf] of Object.entries(NAMES)) {
    for (const control of reference.querySelectorAll(selector)) {
      control.setAttribute('aria-label', nameOf(control));
    }
  }
  for (const [selector, level] of Object.entries(LEVELS)) {
    for (const heading of reference.querySelectorAll(selector)) {
      heading.ariaLevel = level;
    }
  }
  for (const field of reference.querySelectorAll('.parameters input')) {
    field.ariaInvalid = String(field.classList.contains('invalid'));
  }
  // A long body can be scrolled with the keyboard.
  for (const code of reference.querySelectorAll('.highlight-code > .microlight')) {
    code.tabIndex = 0;
  }
  reference.querySelector('.auth-container input')?.setAttribute('type', 'password');
  for (const label of reference.querySelectorAll('.auth-container label')) {
    label.firstChild.data = 'API key';
  }
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const followColorScheme = () =>
  document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', followColorScheme);
followColorScheme();
// Chromium leaves the focus on the link otherwise.
document.querySelector('.skip').addEventListener('click', () => reference.focus());
new MutationObserver(makeAccessible).observe(reference, { subtree: true, childList: true });

/**
 * Resolves when the end of the list of operations, in place of which Swagger UI shows them, is seen, or one of its links
 * is followed. Swagger UI takes a second on a phone.
 */
const needed = new Promise((resolve) => {
  new IntersectionObserver(
    (entries) => entries.some(({ isIntersecting }) => isIntersecting) && resolve(),
  ).observe(reference.querySelector('li:last-child'));
  addEventListener('hashchange', resolve);
  if (location.hash !== '') {
    resolve();
  }
});

/** Loads what Swagger UI needs. @throws if a file cannot be loaded. */
async function loadSwaggerUI() {
  const parts = [...document.querySelector('template').content.cloneNode(true).children];
  const loaded = parts.map(
    (part) =>
      new Promise((resolve, reject) => Object.assign(part, { onload: resolve, onerror: reject })),
  );
  document.head.append(...parts);
  await Promise.all(loaded);
  return window.SwaggerUIBundle;
}

try {
  await needed;
  const [response, SwaggerUIBundle] = await Promise.all([fetch('./openapi.json'), loadSwaggerUI()]);
  const spec = JSON.parse(await response.text(), fitForPage);
  // The page may connect only to the service that it came from.
  spec.servers = [{ url: new URL('./v1', location.href).href }];
  // Swagger UI would link to a page about it that does not exist.
  delete spec.info.license;
  SwaggerUIBundle({
    spec,
    domNode: reference,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [corrections],
    validatorUrl: null,
    deepLinking: true,
    tryItOutEnabled: true,
    displayOperationId: true,
    showCommonExtensions: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: false,
  });
} catch {
  reference.innerHTML = '<main>This page could not be loaded completely. Load it again.</main>';
}
