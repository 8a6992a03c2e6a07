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
      body: await answer.locator('.highlight-code code').first().innerText(),
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
      const curl = await operation('listPets').locator('.curl-command code').innerText();
      expect(curl).toContain(`'${service.origin}/v1/pets?limit=20'`);
    });

    it('marks listOrders as experimental, offers nothing to try there, and says why', async () => {
      expect(await operation('listOrders').locator('.badge').innerText()).toBe('experimental');
      await open('listOrders');
      await open('createPet');
      await operation('createPet').locator('.execute').waitFor();
      await operation('listOrders').locator('.response').first().waitFor();
      expect(await operation('listOrders').locator('.execute, .try-out').count()).toBe(0);
      const fields = '.parameters :is(input, select):visible';
      expect(await operation('createPet').locator(fields).count()).toBeGreaterThan(0);
      expect(await operation('listOrders').locator(fields).count()).toBe(0);
      expect(await operation('listOrders').locator('.not-tried').innerText()).toBe(
        'It cannot be tried on this page: the interface disables that. Use curl: ' +
          `curl -H "Authorization: Bearer $KEY" ${service.origin}/v1/store/orders`,
      );
      expect(await operation('createPet').locator('.not-tried').count()).toBe(0);
    });

    it('shows an error in full when asked', async () => {
      await open('getPet');
      const error = operation('getPet').locator('.response[data-code="404"]');
      expect(await error.innerText()).toContain('pet_not_found');
      await error.getByRole('button', { name: 'Show' }).click();
      await error.locator('.highlight-code').waitFor();
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
      await page.locator('.auth-container input').waitFor();
      expect(await barriers('.dialog-ux')).toEqual([]);
    });
  });

  describe('the reference page with a key', () => {
    inTab('/docs');
    // As somebody copies it from a header.
    beforeAll(() => pasteKey(` bearer ${service.key}\n`));

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

    it('marks getPet as deprecated, with the date of its removal', async () => {
      const badge = await operation('getPet').locator('.badge').innerText();
      expect(badge).toBe('deprecated, to be removed on 5 December 2030');
      await open('getPet');
      const petId = operation('getPet').locator('[data-param-name=petId] input');
      await petId.fill('-9223372036854775807');
      const { status, headers } = await execute('getPet');
      expect(status).toMatch(/^404/);
      expect(headers.join()).toContain('deprecation: @1795046400');
    });

    it('keeps the key for the tab, over a reload, until it is removed', async () => {
      await page.reload();
      await open('listPets');
      expect((await execute('listPets')).status).toBe('200');
      const kept = () =>
        page.evaluate('[Object.values(sessionStorage), Object.keys(localStorage)]');
      expect(await kept()).toEqual([[service.key], []]);
      expect(await context.cookies()).toEqual([]);

      await openDialog();
      await page.locator('.auth-container').getByRole('button', { name: 'Logout' }).click();
      expect(await kept()).toEqual([[], []]);
      // The address has the open operation now.
      await page.reload();
      await open('listPets');
      expect((await execute('listPets')).status).toMatch(/^401/);
    });
  });

  describe('the guides', () => {
    inTab('/docs/guides/getting-started');

    it('have samples with the address that they came from, each with a button that copies it', async () => {
      const sample = page.locator('.sample').first();
      await sample.getByRole('button', { name: 'Copy' }).click();
      await sample.getByRole('button', { name: 'Copied' }).waitFor();
      const copied = await page.evaluate('navigator.clipboard.readText()');
      expect(copied).toContain(`export BASE=${service.origin}/v1\n`);
      expect(copied).toBe(await sample.locator('code').textContent());
      const outputs = page.locator('.guide > pre');
      expect(await outputs.count()).toBeGreaterThan(0);
      expect(await page.locator('pre').count()).toBe(
        (await outputs.count()) + (await page.getByRole('button').count()),
      );
    });

    it('have headings that lead to themselves', async () => {
      await page.getByRole('link', { name: 'Numbers beyond 2^53' }).click();
      expect(page.url()).toMatch(/#numbers-beyond-253$/);
      const top = 'document.querySelector("#numbers-beyond-253").getBoundingClientRect().top';
      expect(await page.evaluate(top)).toBeLessThan(200);
    });

    it.each(GUIDES)(
      'are no wider than a phone, and show their own tab there: %s',
      async (guide) => {
        await page.setViewportSize({ width: 360, height: 740 });
        await goTo(`/docs/guides/${guide}`);
        expect(await widthOfPage()).toBe(360);
        const tab = await page.locator('nav [aria-current]').boundingBox();
        expect(tab!.x).toBeGreaterThanOrEqual(0);
        expect(tab!.x + tab!.width).toBeLessThanOrEqual(360);
      },
    );

    it.each(GUIDES)('have no barrier for anybody: %s', async (guide) => {
      await goTo(`/docs/guides/${guide}`);
      expect(await barriers()).toEqual([]);
    });
  });
});
