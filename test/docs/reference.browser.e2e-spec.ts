import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { startService, type TestService } from '../support/service.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const GUIDES = readdirSync(join(PROJECT_ROOT, 'docs/guides')).map((file) =>
  file.replace('.md', ''),
);

/** Debian's, other Linux distributions', and macOS's. */
const CHROMIUM = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
].find((path) => existsSync(path));

if (CHROMIUM === undefined && process.env['CI']) {
  throw new Error('CI needs Chromium: apt-get install chromium');
}
if (CHROMIUM === undefined) {
  console.warn('The reference page is not tested: there is no Chromium.');
}

// A developer's machine may have no Chromium; CI, where these tests must run, has failed above then.
const ON = CHROMIUM === undefined ? describe.skip : describe;

ON('in a browser', () => {
  let service: TestService;
  let browser: Browser;
  /** Its tabs share what the browser caches, and nothing else: to load the reference page is most of a test's time. */
  let context: BrowserContext;
  let page: Page;
  /** Whatever the browser complained of, the page's own policy being hurt among it, and requests to others. */
  const complaints: string[] = [];

  beforeAll(async () => {
    service = await startService({ PUBLIC_BASE_URL: 'https://animals.example/v1' });
    browser = await chromium.launch({
      executablePath: CHROMIUM!,
      // Root may not use the sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
    context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
    context.setDefaultTimeout(60_000);
  });
  afterAll(async () => {
    await browser?.close();
    await service.stop();
  });
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  /** Has the tests of a group share a tab. */
  const inTab = (path: string) => {
    beforeAll(() => openTab(path));
    afterAll(() => page.close());
  };
  const openTab = async (path: string) => {
    page = await context.newPage();
    page.on('console', (message) => {
      // Chromium reports each answer of 400 and more, which a test may have asked for.
      if (
        ['error', 'warning'].includes(message.type()) &&
        !/status of 4\d\d/.test(message.text())
      ) {
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
  };
  const goTo = (path: string) => page.goto(service.origin + path);
  const widthOfPage = () => page.evaluate('document.documentElement.scrollWidth');

  const operation = (id: string) => page.locator(`.opblock[id$="-${id}"]`);
  const open = async (id: string) => {
    const control = operation(id).locator('.opblock-summary-control');
    if ((await control.getAttribute('aria-expanded')) === 'false') {
      await control.click();
    }
  };
  const extensions = (id: string) =>
    operation(id).locator('.opblock-section').allInnerTexts().then(String);
  const openDialog = () => page.locator('.scheme-container .authorize').click();
  const closeDialog = () => page.locator('.auth-container .btn-done').click();
  const pasteKey = async (key: string) => {
    await openDialog();
    await page.locator('.auth-container input').fill(key);
    await page.locator('.auth-container .authorize').click();
    await closeDialog();
  };
  const execute = async (id: string) => {
    await operation(id).locator('.execute').click();
    const answer = operation(id).locator('.live-responses-table tbody .response');
    return {
      status: await answer.locator('.response-col_status').innerText(),
      body: await answer.locator('.highlight-code .microlight').first().innerText(),
      headers: await answer.locator('.headerline').allInnerTexts(),
    };
  };

  /** The ways to look at a page. */
  const WAYS = (['light', 'dark'] as const)
    .flatMap((colorScheme) => [1280, 390].map((width) => ({ colorScheme, width })))
    .filter((_way, index) => FULL_LENGTH || [0, 3].includes(index));
  const AXE_OPTIONS = {
    rules: { 'target-size': { enabled: true } },
    resultTypes: ['violations'],
  };

  /** @returns what axe calls critical or serious, in each of {@link WAYS}. */
  const barriers = async (selector = 'html') => {
    await page.evaluate(AXE);
    const found: string[] = [];
    for (const { colorScheme, width } of WAYS) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      // At the top, where the header covers nothing; and once everything has its colour.
      await page.evaluate(
        'scrollTo(0, 0), Promise.allSettled(document.getAnimations().map(({ finished }) => finished))',
      );
      const { violations } = (await page.evaluate(
        `axe.run('${selector}', ${JSON.stringify(AXE_OPTIONS)})`,
      )) as AxeResults;
      found.push(
        ...violations
          .filter(({ impact }) => impact === 'critical' || impact === 'serious')
          .flatMap(({ id, nodes }) =>
            nodes.map(({ html }) => `${width}, ${colorScheme}: ${id}: ${html}`),
          ),
      );
    }
    return found;
  };

  describe('the reference page without a key', () => {
    inTab('/docs');

    it('shows a refusal as it came, below a sample with the address that the page came from', async () => {
      await open('listPets');
      const { status, body } = await execute('listPets');
      expect(status).toMatch(/^401/);
      expect(JSON.parse(body)).toMatchObject({ code: 'missing_api_key' });
      const curl = await operation('listPets').locator('.curl-command .curl').innerText();
      expect(curl).toContain(`'${service.origin}/v1/pets?limit=20'`);
    });

    it('says that listOrders is experimental, and offers nothing to try there', async () => {
      await open('listOrders');
      await open('createPet');
      await operation('createPet').locator('.execute').waitFor();
      await operation('listOrders').locator('.response').first().waitFor();
      expect(await extensions('listOrders')).toContain('x-stability\t"experimental"');
      expect(await operation('listOrders').locator('.execute, .try-out').count()).toBe(0);
      const fields = '.parameters :is(input, select):enabled';
      expect(await operation('createPet').locator(fields).count()).toBeGreaterThan(0);
      expect(await operation('listOrders').locator(fields).count()).toBe(0);
    });

    it('shows that a parameter is invalid, and why', async () => {
      await open('listPets');
      const limit = operation('listPets').locator('[data-param-name=limit] input');
      await limit.fill('1000');
      await operation('listPets').locator('.execute').click();
      const errors = operation('listPets').locator('.validation-errors');
      expect(await errors.innerText()).toMatch(/limit.* must be less than or equal to 100/);
      expect(await limit.getAttribute('aria-invalid')).toBe('true');
      expect(await barriers()).toEqual([]);
      await limit.fill('20');
    });

    it('says in a sentence that the service cannot be reached', async () => {
      await open('listPets');
      await page.route('**/v1/**', (route) => route.abort());
      await operation('listPets').locator('.execute').click();
      const response = operation('listPets').locator('.live-responses-table .response');
      await response.getByText('The service cannot be reached.').waitFor();
      expect(await response.innerText()).not.toContain('CORS');
      await page.unroute('**/v1/**');
      expect(complaints.splice(0).join()).toMatch(/ERR_FAILED/);
    });

    it.each(['light', 'dark'] as const)(
      'is %s where the reader likes it so',
      async (colorScheme) => {
        await page.emulateMedia({ colorScheme });
        const brightnessOf = (property: string) =>
          page.evaluate(
            `getComputedStyle(document.querySelector('.info .title')).${property}.match(/\\d+/)[0] / 255`,
          ) as Promise<number>;
        await operation('getPet').waitFor();
        const title = await brightnessOf('color');
        const paper = (await page.evaluate(
          'getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] / 255',
        )) as number;
        expect(paper > 0.8 && title < 0.3).toBe(colorScheme === 'light');
        expect(paper < 0.3 && title > 0.8).toBe(colorScheme === 'dark');
      },
    );

    it('is no wider than a phone', async () => {
      await page.setViewportSize({ width: 360, height: 740 });
      await open('createPet');
      await operation('createPet').locator('.execute').waitFor();
      expect(await widthOfPage()).toBe(360);
    });

    it('has no barrier for anybody, with all operations open, and in its dialog', async () => {
      for (const id of ['listPets', 'createPet', 'getPet', 'listOrders']) {
        await open(id);
      }
      await execute('createPet');
      await operation('listOrders').locator('.response').first().waitFor();
      expect(await barriers()).toEqual([]);
      await openDialog();
      await page.locator('.auth-container input[type=password]').waitFor();
      expect(await barriers('.dialog-ux')).toEqual([]);
    });
  });

  describe('the reference page with a key', () => {
    inTab('/docs');
    beforeAll(() => pasteKey(service.key));

    it('adds an animal and lists it, with every digit of an int64; then it adds a second one', async () => {
      await open('createPet');
      await operation('createPet')
        .locator('textarea')
        .fill('{"name":"Rex","categoryId":9007199254740993,"status":"sold"}');
      const created = await execute('createPet');
      expect(created.status).toBe('201');
      expect(created.body).toContain('"categoryId": 9007199254740993,');

      await open('listPets');
      await operation('listPets').locator('[data-param-name=status] select').selectOption('sold');
      const listed = await execute('listPets');
      expect(listed.status).toBe('200');
      expect(listed.body).toMatch(/^\[\s*\{.*"categoryId": 9007199254740993,/s);

      await operation('createPet').locator('.btn-clear').click();
      const second = await execute('createPet');
      expect(second.status).toBe('201');
      expect(second.body).not.toBe(created.body);
    });

    it('shows that getPet is deprecated, with the date of its removal', async () => {
      await open('getPet');
      await operation('getPet').locator('.opblock-title_normal').first().waitFor();
      expect(await extensions('getPet')).toContain('x-deprecated-sunset\t"2030-12-05"');
      const petId = operation('getPet').locator('[data-param-name=petId] input');
      await petId.fill('-9223372036854775807');
      const { status, headers } = await execute('getPet');
      expect(status).toMatch(/^404/);
      expect(headers.join()).toContain('deprecation: @1795046400');
    });
  });

  describe('the guides', () => {
    inTab('/docs/guides/getting-started');

    it('have samples with the address that they came from, each with a button that copies it', async () => {
      const sample = page.locator('.copy').first();
      await sample.click();
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

    it('have headings that lead to themselves', async () => {
      await page.getByRole('link', { name: 'Numbers beyond 2^53' }).click();
      expect(page.url()).toMatch(/#numbers-beyond-253$/);
      const top = 'document.querySelector("#numbers-beyond-253").getBoundingClientRect().top';
      expect(await page.evaluate(top)).toBeLessThan(200);
    });

    it.each(GUIDES)(
      'are no wider than a phone, and show every entry of the navigation there: %s',
      async (guide) => {
        await page.setViewportSize({ width: 360, height: 740 });
        await goTo(`/docs/guides/${guide}`);
        expect(await widthOfPage()).toBe(360);
        for (const entry of await page.locator('header a:not(.skip)').all()) {
          const { x, width } = (await entry.boundingBox())!;
          expect(x).toBeGreaterThanOrEqual(0);
          expect(x + width).toBeLessThanOrEqual(360);
        }
      },
    );

    it.each(GUIDES)('have no barrier for anybody: %s', async (guide) => {
      await goTo(`/docs/guides/${guide}`);
      expect(await barriers()).toEqual([]);
    });
  });
});
