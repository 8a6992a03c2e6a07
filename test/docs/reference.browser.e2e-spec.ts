import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { describeWith } from '../support/describe-with.js';
import { serviceOfTests } from '../support/service.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const AXE_OPTIONS = { rules: { 'target-size': { enabled: true } }, resultTypes: ['violations'] };

/** Debian's, other Linux distributions', and macOS's. */
const CHROMIUM = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
].find((path) => existsSync(path));

/** The ways to look at a page. */
const DESK = { colorScheme: 'light', size: { width: 1280, height: 800 } } as const;
const PHONE = { colorScheme: 'dark', size: { width: 375, height: 700 } } as const;

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
    };
  };

  /** Expects that axe finds nothing. The page and its navigation are no wider than the window. */
  const expectNoBarriers = async (
    { colorScheme, size }: typeof DESK | typeof PHONE,
    selector = 'html',
  ) => {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    // At the top, where the header covers nothing; and once everything has its colour.
    await page.evaluate(
      'scrollTo(0, 0), Promise.allSettled(document.getAnimations().map(({ finished }) => finished))',
    );
    await page.evaluate(AXE);
    const run = `axe.run('${selector}', ${JSON.stringify(AXE_OPTIONS)})`;
    const { violations } = (await page.evaluate(run)) as AxeResults;
    const found = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
    expect(found).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(size.width);
    const ends: number[] = await page.evaluate(
      `[...document.querySelectorAll('header a:not(.skip)')].map((link) => link.getBoundingClientRect()).flatMap(({ left, right }) => [left, right])`,
    );
    expect(ends.filter((x) => x < 0 || x > size.width)).toEqual([]);
  };

  /** Presses Tab until an element has the focus; each on the way shows by an outline that it has it. */
  const tabTo = async (selector: string) => {
    for (let presses = 0; presses < 300; presses += 1) {
      await page.keyboard.press('Tab');
      const { isThere, isHidden } = (await page.evaluate(`(() => {
        const element = document.activeElement;
        const { outlineStyle, outlineWidth } = getComputedStyle(element);
        const { width, height } = element.getBoundingClientRect();
        const isShown = outlineStyle === 'solid' && parseFloat(outlineWidth) >= 2 && Math.min(width, height) > 10;
        return {
          isThere: element.matches(${JSON.stringify(selector)}),
          isHidden: element.tagName !== 'BODY' && !isShown && element.outerHTML,
        };
      })()`)) as { isThere: boolean; isHidden: string | false };
      expect(isHidden).toBe(false);
      if (isThere) {
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

    it('has a field for each parameter, and shows which operation is deprecated and which experimental, with nothing to try', async () => {
      const fieldsOf = (id: string) =>
        operation(id)
          .locator('[data-param-name]:has(:is(input, select):enabled)')
          .evaluateAll((all: any[]) => all.map(({ dataset }) => dataset.paramName));
      await (await open('listPets')).locator('.execute').waitFor();
      const names = ['limit', 'status', 'cursor', 'X-Request-Id', 'traceparent'];
      expect(await fieldsOf('listPets')).toEqual(names);
      const experimental = await open('listOrders');
      const sections = await experimental.locator('.opblock-section').allInnerTexts();
      expect(String(sections)).toMatch(/x-stability\s+"experimental"/);
      expect(await experimental.locator('.execute, .try-out').count()).toBe(0);
      expect(await fieldsOf('listOrders')).toEqual([]);
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
    });

    it('has no barrier for anybody, with all operations open and a value that is invalid, and in its dialog', async () => {
      await open('getPet');
      await execute('createPet');
      await expectNoBarriers(DESK);
      await expectNoBarriers(PHONE);
      await page.locator('.scheme-container .authorize').click();
      const field = page.getByLabel('API key', { exact: true });
      expect(await field.getAttribute('type')).toBe('password');
      expect(await page.locator('.auth-container label').innerText()).toBe('API key');
      await expectNoBarriers(PHONE, '.dialog-ux');
    });
  });

  describe('the reference page with a key', () => {
    inTab('/docs');

    it('needs no mouse, and shows where the focus is', async () => {
      await page.setViewportSize(DESK.size);
      await operation('getPet').waitFor();
      const enterAt = async (selector: string) => {
        await tabTo(selector);
        await page.keyboard.press('Enter');
      };
      await enterAt('.skip');
      expect(await page.evaluate('document.activeElement.id')).toBe('main');
      await enterAt('.scheme-container .authorize');
      await page.keyboard.type(service.key);
      await page.keyboard.press('Enter');
      await enterAt('.btn-done');
      await enterAt('[id$=listPets] .opblock-summary-control');
      await operation('listPets').locator('.execute').waitFor();
      await enterAt('[id$=listPets] .execute');
      await answerOf('listPets').getByText('200').waitFor();
      await enterAt('.models-control');
      await enterAt('.json-schema-2020-12-accordion');
      await page.locator('.json-schema-2020-12-accordion[aria-expanded=true]').first().waitFor();
    });

    it('adds an animal and lists it, with every digit of an int64; then it adds a second one', async () => {
      const body = '{"name":"Rex","categoryId":9007199254740993,"status":"sold"}';
      await (await open('createPet')).locator('textarea').fill(body);
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

    it.each([
      ['errors', 'a table', PHONE],
      ['retries', 'samples', DESK],
    ] as const)('have no barrier for anybody: %s, with %s', async (guide, _what, way) => {
      await goTo(`/docs/guides/${guide}`);
      await expectNoBarriers(way);
    });
  });
});
