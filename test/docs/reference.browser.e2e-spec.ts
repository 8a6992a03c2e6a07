import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { describeWith } from '../support/describe-with.js';
import { serviceOfTests } from '../support/service.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Debian's, other Linux distributions', and macOS's. */
const CHROMIUM = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
].find((path) => existsSync(path));

const WIDE = { width: 1280, height: 800 };
const PHONE = { width: 375, height: 700 };

describeWith('Chromium', CHROMIUM)('in a browser', () => {
  const service = serviceOfTests({ PUBLIC_BASE_URL: 'https://animals.example/v1' });
  let browser: Browser;
  /** Its tabs share what the browser caches, and nothing else: to load the reference page is most of a test's time. */
  let context: BrowserContext;
  let page: Page;
  /** Whatever the browser complained of, violations of the page's policy among it, and requests to others. */
  const complaints: string[] = [];

  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: CHROMIUM!,
      // Root may not use the sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
    context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
    context.setDefaultTimeout(60_000);
  });
  afterAll(() => browser?.close());
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  /** Has the tests of a group share a tab. */
  const inTab = (path: string) => {
    beforeAll(async () => {
      page = await context.newPage();
      page.on('console', (message) => {
        // Chromium reports each response of 400 and more, which a test may have asked for.
        if (/error|warning/.test(message.type()) && !/status of 4\d\d/.test(message.text())) {
          complaints.push(message.text());
        }
      });
      page.on('pageerror', (error) => complaints.push(String(error)));
      page.on('request', (request) => {
        if (!request.url().startsWith(`${service.origin}/`) && !request.url().startsWith('data:')) {
          complaints.push(request.url());
        }
      });
      await goTo(path);
    });
    afterAll(() => page.close());
  };
  const goTo = (path: string) => page.goto(service.origin + path);

  const operation = (id: string) => page.locator(`.opblock[id$="-${id}"]`);
  /** Opens an operation, and waits for what it loads later. */
  const open = async (id: string) => {
    const control = operation(id).locator('.opblock-summary-control');
    if ((await control.getAttribute('aria-expanded')) === 'false') {
      await control.click();
    }
    await operation(id).locator('.response').first().waitFor();
    return operation(id);
  };
  const extensions = async (id: string) =>
    String(await (await open(id)).locator('.opblock-section').allInnerTexts());
  const answerOf = (id: string) => operation(id).locator('.live-responses-table tbody .response');
  const execute = async (id: string) => {
    const clear = (await open(id)).locator('.btn-clear');
    if (await clear.isVisible()) {
      await clear.click();
    }
    await operation(id).locator('.execute').click();
    return {
      status: await answerOf(id).locator('.response-col_status').innerText(),
      body: await answerOf(id).locator('.highlight-code .microlight').first().innerText(),
      headers: await answerOf(id).locator('.headerline').allInnerTexts(),
    };
  };

  /** The ways to look at a page. */
  const WAYS = [
    { colorScheme: 'light', size: WIDE },
    { colorScheme: 'dark', size: PHONE },
  ] as const;
  const AXE_OPTIONS = {
    rules: { 'target-size': { enabled: true } },
    resultTypes: ['violations'],
  };

  /** @returns what axe finds in each of {@link WAYS}. The page and its navigation are no wider than the window there. */
  const barriers = async (selector = 'html') => {
    await page.evaluate(AXE);
    const found: string[] = [];
    for (const { colorScheme, size } of WAYS) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(size);
      // At the top, where the header covers nothing; and once everything has its colour.
      await page.evaluate(
        'scrollTo(0, 0), Promise.allSettled(document.getAnimations().map(({ finished }) => finished))',
      );
      const { violations } = (await page.evaluate(
        `axe.run('${selector}', ${JSON.stringify(AXE_OPTIONS)})`,
      )) as AxeResults;
      found.push(
        ...violations.flatMap(({ id, impact, nodes }) =>
          nodes.map(({ html }) => `${size.width}, ${colorScheme}: ${impact} ${id}: ${html}`),
        ),
      );
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(size.width);
      const ends = page
        .locator('header a:not(.skip)')
        .evaluateAll((links: any[]) => links.map((link) => link.getBoundingClientRect()))
        .then((boxes) => boxes.flatMap(({ left, right }) => [left, right]));
      expect((await ends).filter((x) => x < 0 || x > size.width)).toEqual([]);
    }
    return found;
  };

  /** What the focused element shows of it: its outline and its size. */
  const focused = () =>
    page.evaluate(() => {
      const element = (globalThis as any).document.activeElement;
      const { outlineStyle, outlineWidth } = (globalThis as any).getComputedStyle(element);
      const { width, height } = element.getBoundingClientRect();
      const isBody = element.tagName === 'BODY';
      return { isBody, style: outlineStyle, outline: parseFloat(outlineWidth), width, height };
    });
  /** Presses Tab until an element has the focus; each on the way shows that it has it. */
  const tabTo = async (selector: string) => {
    for (let presses = 0; presses < 300; presses += 1) {
      await page.keyboard.press('Tab');
      const { isBody, style, outline, width, height } = await focused();
      if (!isBody) {
        expect(style).toBe('solid');
        expect(outline).toBeGreaterThanOrEqual(2);
        expect(Math.min(width, height)).toBeGreaterThan(10);
      }
      if (await page.evaluate(`document.activeElement.matches('${selector}')`)) {
        return;
      }
    }
    throw new Error(`Tab does not lead to ${selector}`);
  };

  describe('the reference page without a key', () => {
    inTab('/docs');

    it('shows a refusal as it came, below a sample with the address that the page came from', async () => {
      const { status, body } = await execute('listPets');
      expect(status).toBe('401');
      expect(JSON.parse(body)).toMatchObject({ code: 'missing_api_key' });
      const curl = await operation('listPets').locator('.curl-command .curl').innerText();
      expect(curl).toContain(`'${service.origin}/v1/pets?limit=20'`);
    });

    it('has a field for each parameter, but says that listOrders is experimental, and offers nothing to try there', async () => {
      const fieldsOf = (id: string) =>
        operation(id)
          .locator('[data-param-name]:has(:is(input, select):enabled)')
          .evaluateAll((all: any[]) => all.map(({ dataset }) => dataset.paramName));
      await (await open('listPets')).locator('.execute').waitFor();
      const names = ['limit', 'status', 'cursor', 'X-Request-Id', 'traceparent'];
      expect(await fieldsOf('listPets')).toEqual(names);
      expect(await extensions('listOrders')).toMatch(/x-stability\s+"experimental"/);
      expect(await operation('listOrders').locator('.execute, .try-out').count()).toBe(0);
      expect(await fieldsOf('listOrders')).toEqual([]);
    });

    it('shows at a glance which operation is deprecated and which is experimental', async () => {
      const badges = page.locator('.opblock-summary-control:has(.badge)');
      const texts = await badges.evaluateAll((all: any[]) => all.map((it) => it.innerText));
      expect(texts).toEqual([
        expect.stringMatching(/\bdeprecated\b.*\bgetPet\b/s),
        expect.stringMatching(/\bexperimental\b.*\blistOrders\b/s),
      ]);
    });

    it('shows at a field that its value is invalid, why, and which are valid', async () => {
      const row = (await open('listPets')).locator('[data-param-name=limit]');
      await row.locator('input').fill('1000');
      await operation('listPets').locator('.execute').click();
      const errors = operation('listPets').locator('.validation-errors');
      expect(await errors.innerText()).toContain(
        "For 'limit': Value must be less than or equal to 100.",
      );
      expect(await row.locator('input').getAttribute('aria-invalid')).toBe('true');
      expect(await row.locator('input').getAttribute('title')).toMatch(/less than or equal to 100/);
      expect(await row.innerText()).toMatch(/minimum: 1\s+maximum: 100/);
      expect(await barriers('[data-param-name=limit]')).toEqual([]);
      await row.locator('input').fill('20');
    });

    it('has no barrier for anybody, with all operations open, and in its dialog', async () => {
      for (const id of ['listPets', 'createPet', 'getPet', 'listOrders']) {
        await open(id);
      }
      await execute('createPet');
      expect(await barriers()).toEqual([]);
      await page.locator('.scheme-container .authorize').click();
      const field = page.getByLabel('API key', { exact: true });
      expect(await field.getAttribute('type')).toBe('password');
      expect(await page.locator('.auth-container label').innerText()).toBe('API key');
      expect(await barriers('.dialog-ux')).toEqual([]);
    });
  });

  describe('the reference page with a key', () => {
    inTab('/docs');

    it('needs no mouse, and shows where the focus is', async () => {
      await page.setViewportSize(WIDE);
      await operation('getPet').waitFor();
      await tabTo('.skip');
      await page.keyboard.press('Enter');
      expect(await page.evaluate('document.activeElement.id')).toBe('main');
      await tabTo('.scheme-container .authorize');
      await page.keyboard.press('Enter');
      await page.keyboard.type(service.key);
      await page.keyboard.press('Enter');
      await tabTo('.btn-done');
      await page.keyboard.press('Enter');
      await tabTo('[id$=listPets] .opblock-summary-control');
      await page.keyboard.press('Enter');
      await tabTo('[id$=listPets] .execute');
      await page.keyboard.press('Enter');
      await answerOf('listPets').getByText('200').waitFor();
      await tabTo('.models-control');
      await page.keyboard.press('Enter');
      await tabTo('.json-schema-2020-12-accordion');
      await page.keyboard.press('Enter');
      await page.locator('.json-schema-2020-12-accordion[aria-expanded=true]').first().waitFor();
    });

    it('adds an animal and lists it, with every digit of an int64; then it adds a second one', async () => {
      await (
        await open('createPet')
      )
        .locator('textarea')
        .fill('{"name":"Rex","categoryId":9007199254740993,"status":"sold"}');
      const created = await execute('createPet');
      expect(created.status).toBe('201');
      expect(created.body).toContain('"categoryId": 9007199254740993,');

      await operation('listPets').locator('[data-param-name=status] select').selectOption('sold');
      const listed = await execute('listPets');
      expect(listed.status).toBe('200');
      expect(listed.body).toMatch(/^\[\s*\{.*"categoryId": 9007199254740993,/s);

      const second = await execute('createPet');
      expect(second.status).toBe('201');
      expect(second.body).not.toBe(created.body);
    });
  });

  describe('the guides', () => {
    inTab('/docs/guides/getting-started');

    it('have samples with the address that they came from, each with a button that copies it', async () => {
      await page.locator('.copy').first().click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      const copied = await page.evaluate('navigator.clipboard.readText()');
      expect(copied).toContain(`export BASE=${service.origin}/v1\n`);
      expect(copied).toBe(await page.locator('.copy + pre code').first().textContent());
      const outputs = page.locator('pre:has(> .language-json, > .language-text)');
      expect(await outputs.count()).toBeGreaterThan(0);
      expect(await page.locator('pre').count()).toBe(
        (await outputs.count()) + (await page.locator('.copy').count()),
      );
    });

    // With a table, and with samples.
    it.each(['errors', 'retries'])('have no barrier for anybody: %s', async (guide) => {
      await goTo(`/docs/guides/${guide}`);
      expect(await barriers()).toEqual([]);
    });
  });
});
