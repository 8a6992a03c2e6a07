// Shows /openapi.json on the reference page. The addresses are relative to the page's: it works behind any proxy.

/** The security scheme of the OpenAPI document. */
const SCHEME = 'apiKey';

/** The service's base address, as this page's reader reaches it. */
const BASE = new URL('./v1', location.href).href;

/** Where the tab keeps the key, so that it survives a reload. It is gone with the tab. */
const KEPT_KEY = 'animal-store-api-key';

/** What Swagger UI does otherwise: it would round an int64, and offer to try what is not to be tried. */
const animalStore = ({ React: { createElement: element, Fragment, useState } }) => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (original) => (schemes) => {
          const { [SCHEME]: scheme } = schemes;
          if (typeof scheme?.value !== 'string') {
            return original(schemes);
          }
          const key = scheme.value.trim().replace(/^Bearer +/i, '');
          keepKey(key);
          return original({ ...schemes, [SCHEME]: { ...scheme, value: key } });
        },
        logout: (original) => (names) => {
          keepKey('');
          return original(names);
        },
      },
    },
    spec: {
      wrapSelectors: {
        allowTryItOutFor: (original, system) => (state, path, method) =>
          original(state, path, method) && !isPanelHidden(system, { path, method }),
      },
    },
  },
  wrapComponents: {
    /** The original parses JSON to indent it, which rounds its numbers. */
    responseBody: (Original, system) =>
      function ResponseBody(props) {
        return typeof props.content === 'string' && /\bjson\b/.test(props.contentType)
          ? element(
              'div',
              null,
              element('h5', null, 'Response body'),
              element(
                system.getComponent('HighlightCode', true),
                { language: 'json', canCopy: true },
                indented(props.content),
              ),
            )
          : element(Original, props);
      },
    /** Errors are a line each until somebody wants to see more: they are many, and alike. */
    response: (Original, system) =>
      function Response(props) {
        const [isOpen, setOpen] = useState(props.code < '400');
        return isOpen
          ? element(Original, props)
          : element(
              'tr',
              { className: 'response', 'data-code': props.code },
              element('td', { className: 'response-col_status' }, props.code),
              element(
                'td',
                { className: 'response-col_description' },
                element(system.getComponent('Markdown', true), {
                  source: props.response.get('description'),
                }),
                element('button', { className: 'more', onClick: () => setOpen(true) }, 'Show'),
              ),
            );
      },
    parameters: (Original, system) =>
      function Parameters(props) {
        const [path, method] = props.pathMethod;
        return element(
          Fragment,
          null,
          isPanelHidden(system, { path, method }) &&
            element(
              'p',
              { className: 'not-tried' },
              'It cannot be tried on this page: the interface disables that. Use curl: ',
              element('code', null, `curl -H "Authorization: Bearer $KEY" ${BASE}${path}`),
            ),
          element(Original, props),
        );
      },
    OperationSummaryPath: (Original, system) =>
      function OperationSummaryPath(props) {
        const getComponent = (name, ...rest) =>
          name === 'DeepLink' ? PathText : props.getComponent(name, ...rest);
        return element(
          Fragment,
          null,
          element(Original, { ...props, getComponent }),
          badges(system, props.operationProps.toObject()).map(({ name, text }) =>
            element('span', { key: name, className: `badge ${name}` }, text),
          ),
        );
      },
  },
});

/** The path of an operation, in a button, which may hold no link. The button does what the link would. */
const PathText = ({ text }) => text;

/** @returns a field of an operation as it stands in the document. */
const described = ({ specSelectors }, { path, method }, field) =>
  specSelectors.specJson().getIn(['paths', path, method, field]);

const isPanelHidden = (system, operation) =>
  described(system, operation, 'x-hideTryItPanel') === true;

/** @returns what to know of an operation before it is used. */
function badges(system, operation) {
  const removal = described(system, operation, 'x-deprecated-sunset');
  const stability = described(system, operation, 'x-stability');
  return [
    operation.deprecated && {
      name: 'deprecated',
      text: removal === undefined ? 'deprecated' : `deprecated, to be removed on ${date(removal)}`,
    },
    ['experimental', 'beta'].includes(stability) && { name: 'unstable', text: stability },
  ].filter(Boolean);
}

/** @param text a date, `2030-12-05`. */
const date = (text) =>
  new Date(text).toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });

/** @returns JSON text with line breaks and every digit that it had; as it was where the browser cannot keep them. */
function indented(json) {
  if (JSON.rawJSON === undefined) {
    return json;
  }
  const keepDigits = (_key, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value;
  return JSON.stringify(JSON.parse(json, keepDigits), null, 2);
}

/**
 * A reviver for JSON.parse. It leaves out the bounds of an int64, which would be others as numbers of JavaScript, and
 * which `int64` says; and examples of headers, which the page would send with every request.
 */
function fitForPage(key, value) {
  const isRounded = ['minimum', 'maximum'].includes(key) && !Number.isSafeInteger(value);
  const isHeaderExample = key === 'example' && this.in === 'header';
  return isRounded || isHeaderExample ? undefined : value;
}

function followColorScheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
  dark.addEventListener('change', follow);
  follow();
}

/** @param key the API key to keep; none if empty. */
function keepKey(key) {
  try {
    if (key === '') {
      sessionStorage.removeItem(KEPT_KEY);
    } else {
      sessionStorage.setItem(KEPT_KEY, key);
    }
  } catch {
    // The browser keeps nothing for this page.
  }
}

function keptKey() {
  try {
    return sessionStorage.getItem(KEPT_KEY);
  } catch {
    return null;
  }
}

/** Names what Swagger UI leaves without a name for screen readers, now and whenever it renders. */
function nameControls(reference) {
  const nameAll = (selector, nameOf) => {
    for (const control of reference.querySelectorAll(selector)) {
      const name = nameOf(control);
      if (control.getAttribute('aria-label') !== name) {
        control.setAttribute('aria-label', name);
      }
    }
  };
  const name = () => {
    nameAll('#servers', () => 'Server');
    nameAll('textarea.body-param__text', () => 'Request body');
    nameAll(
      '[data-param-name] :is(input, select)',
      (control) => control.closest('[data-param-name]').dataset.paramName,
    );
    nameAll('.examples-select-element', () => 'Example');
    nameAll('.close-modal', () => 'Close');
    // Its own label would differ from the text that is seen.
    nameAll('.auth-btn-wrapper button[aria-label]', (button) => button.textContent);
  };
  new MutationObserver(name).observe(reference, {
    subtree: true,
    childList: true,
    attributeFilter: ['aria-label'],
  });
}

async function showIn(domNode) {
  const response = await fetch('./openapi.json');
  const spec = JSON.parse(await response.text(), fitForPage);
  // The page may talk to nobody but the service that it came from.
  spec.servers = [{ url: BASE }];
  const key = keptKey();
  const ui = window.SwaggerUIBundle({
    spec,
    domNode,
    presets: [window.SwaggerUIBundle.presets.apis],
    plugins: [animalStore],
    validatorUrl: null,
    deepLinking: true,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    displayOperationId: true,
    syntaxHighlight: { theme: 'tomorrow-night' },
    onComplete: () => {
      if (key !== null) {
        ui.preauthorizeApiKey(SCHEME, key);
      }
    },
  });
}

const reference = document.querySelector('#reference');
followColorScheme();
nameControls(reference);
showIn(reference).catch(() => {
  reference.textContent = 'The OpenAPI document could not be loaded. Load this page again.';
});
