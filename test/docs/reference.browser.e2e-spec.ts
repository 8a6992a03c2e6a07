import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
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
  let page: Page;
  /** Whatever the browser complained of, violations of the page's policy among it, and requests to others. */
  const complaints: string[] = [];

  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: CHROMIUM!,
      // Root may not use the sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
    page = await browser.newPage({ permissions: ['clipboard-read', 'clipboard-write'] });
    page.setDefaultTimeout(60_000);
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
  });
  afterAll(() => browser?.close());
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

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
  const execute = async (id: string) => {
    const clear = (await open(id)).locator('.btn-clear');
    if (await clear.isVisible()) {
      await clear.click();
    }
    await operation(id).locator('.execute').click();
    const answer = operation(id).locator('.live-responses-table tbody .response');
    return {
      status: await answer.locator('.response-col_status').innerText(),
      body: await answer.locator('.highlight-code .microlight').first().innerText(),
    };
  };
  const openDialog = () => page.locator('.scheme-container .authorize').click();
  const keyField = () => page.getByLabel('API key', { exact: true });

  /** Expects that axe finds nothing, and that the page is no wider than the window. */
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
  };

  describe('the reference page', () => {
    beforeEach(async () => {
      await page.setViewportSize(DESK.size);
      await goTo('/docs');
    });

    it('on a phone, has its text and the operations without Swagger UI, which loads when one is followed', async () => {
      await page.setViewportSize(PHONE.size);
      await page.reload();
      await expectNoBarriers(PHONE);
      expect(await page.locator('.swagger-ui').count()).toBe(0);
      await page.getByRole('link', { name: 'GET /store/orders' }).click();
      await operation('listOrders').locator('.response').first().waitFor();
    });

    it('on a phone, shows the operation that its address names', async () => {
      await page.setViewportSize(PHONE.size);
      await goTo('/docs#/Pets/createPet');
      await page.reload();
      await operation('createPet').locator('.response').first().waitFor();
    });

    it('sends no requests of an operation that is experimental, says why, and marks what is not stable', async () => {
      await open('listOrders');
      expect(await operation('listOrders').innerText()).toContain('sends no requests');
      expect(await operation('listOrders').locator('button.execute, .try-out').count()).toBe(0);
      const badges = await page.locator('.opblock .badge').allInnerTexts();
      expect(badges.toSorted()).toEqual(['deprecated', 'experimental']);
    });

    it('shows no bound of an int64 that is rounded', async () => {
      const shown = (await (await open('getPet')).innerText()) + (await page.innerText('.models'));
      expect(shown).not.toContain('9223372036854776000');
    });

    it('says so if the service cannot be reached, or if it could not be loaded', async () => {
      await open('listPets');
      await page.route('**/v1/pets*', (route) => route.abort());
      await operation('listPets').locator('.execute').click();
      await operation('listPets').getByText('The service cannot be reached.').waitFor();
      await page.unrouteAll();
      for (const part of ['openapi.json', 'swagger-ui-bundle.js', 'swagger-ui.css']) {
        const isPart = ({ pathname }: URL) => pathname.endsWith(`/${part}`);
        await page.route(isPart, (route) => route.abort());
        await page.reload();
        await page.getByText('could not be loaded completely').waitFor();
        await page.unroute(isPart);
      }
      expect(complaints.splice(0).join()).toMatch(
        /^(Failed to load resource: net::ERR_FAILED,?)+$/,
      );
    });

    it('shows a refusal as it came, below a sample with the address that the page came from', async () => {
      const { status, body } = await execute('listPets');
      expect(status).toBe('401');
      expect(JSON.parse(body)).toMatchObject({ code: 'missing_api_key' });
      const curl = await operation('listPets').locator('.curl-command .curl').innerText();
      expect(curl).toContain(`'${service.origin}/v1/pets?limit=20'`);
    });

    it('adds an animal with a key and lists it, with every digit of an int64; then it adds a second one', async () => {
      await openDialog();
      await keyField().fill(service.key);
      await keyField().press('Enter');
      await page.locator('.btn-done').click();
      // Whoever opens the page later on this machine has no key.
      expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0);
      const body = '{"name":"Rex","categoryId":9007199254740993,"status":"sold"}';
      await (await open('createPet')).locator('textarea').fill(body);
      const created = await execute('createPet');
      expect(created.status).toBe('201');
      expect(created.body).toContain('"categoryId": 9007199254740993,');

      await open('listPets');
      await operation('listPets').locator('[data-param-name=status] select').selectOption('sold');
      const listed = await execute('listPets');
      expect(listed.status).toBe('200');
      expect(listed.body).toMatch(/^\[\s*\{.*"categoryId": 9007199254740993,/s);
      // The keyboard reaches the body, and can scroll it.
      const response = operation('listPets').locator('.live-responses-table .microlight').first();
      expect(await response.getAttribute('tabindex')).toBe('0');

      const second = await execute('createPet');
      expect(second.status).toBe('201');
      expect(second.body).not.toBe(created.body);
    });

    const enterInvalidLimit = async () => {
      const limit = (await open('listPets')).locator('[data-param-name=limit] input');
      await limit.fill('1000');
      await operation('listPets').locator('.execute').click();
      return limit;
    };

    it('shows at a field that its value is invalid, and why', async () => {
      const limit = await enterInvalidLimit();
      const errors = operation('listPets').locator('.validation-errors');
      expect(await errors.innerText()).toMatch(/'limit': .+ less than or equal to 100/);
      expect(await limit.getAttribute('aria-invalid')).toBe('true');
    });

    it('has no barrier for anybody, with all operations open and a value that is invalid, and in its dialog', async () => {
      await enterInvalidLimit();
      await open('getPet');
      await open('listOrders');
      await execute('createPet');
      await expectNoBarriers(DESK);
      await expectNoBarriers(PHONE);
      await openDialog();
      expect(await keyField().getAttribute('type')).toBe('password');
      await expectNoBarriers(PHONE, '.dialog-ux');
    });
  });

  it('a guide has samples with the address that they came from, and buttons that copy them', async () => {
    await goTo('/docs/guides/getting-started');
    await page.locator('.copy').first().click();
    // A screen reader says it.
    const button = page.locator('[aria-live=polite]').first();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate('navigator.clipboard.readText()');
    expect(copied).toContain(`export BASE=${service.origin}/v1\n`);
    expect(copied).toBe(await page.locator('.copy + pre code').first().textContent());
    await button.getByText('Copy', { exact: true }).waitFor();
  });

  it('a guide says that a sample is copied only if the browser lets it be', async () => {
    await goTo('/docs/guides/getting-started');
    await page.evaluate("navigator.clipboard.writeText = async () => { throw Error('refused') }");
    const refused = page.waitForEvent('pageerror');
    await page.locator('.copy').first().click();
    await refused;
    expect(await page.locator('.copy').first().innerText()).toBe('Copy');
    expect(complaints.splice(0)).toEqual(['Error: refused']);
  });

  it('a guide has such a button at each sample, and none at an output', async () => {
    await goTo('/docs/guides/getting-started');
    const output = ':has(code.language-json, code.language-text)';
    const [outputs, samples, copied] = await Promise.all(
      [`pre${output}`, `pre:not(${output})`, `.copy + pre:not(${output})`].map((selector) =>
        page.locator(selector).count(),
      ),
    );
    expect(outputs).toBeGreaterThan(0);
    expect([copied, await page.locator('.copy').count()]).toEqual([samples, samples]);
  });

  // On the reference page, Swagger UI may just take the place of the next link.
  it.each([
    ['/docs', ['Tab', 'Enter']],
    ['/docs/guides/errors', ['Tab', 'Enter', 'Tab']],
  ])(
    'a page begins with a link that leads a keyboard past its header: %s',
    async (path, pressed) => {
      await goTo(path);
      for (const key of pressed) {
        await page.keyboard.press(key);
      }
      expect(await page.evaluate('document.activeElement.closest("#main") !== null')).toBe(true);
    },
  );

  it.each(['/docs', '/docs/guides/errors'])(
    'a page is as wide as the screen of a phone: %s',
    async (path) => {
      const phone = await browser.newPage({ viewport: PHONE.size, isMobile: true });
      await phone.goto(service.origin + path);
      expect(await phone.evaluate('innerWidth')).toBe(PHONE.size.width);
      await phone.close();
    },
  );

  it.each([
    ['errors', 'a table', PHONE],
    ['retries', 'samples', DESK],
  ] as const)('a guide has no barrier for anybody: %s, with %s', async (guide, _what, way) => {
    await goTo(`/docs/guides/${guide}`);
    await expectNoBarriers(way);
  });
});
