import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { AxeResults } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { FULL_LENGTH } from '../full-length.js';
import { startService, type TestService } from '../service.js';

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

ON('the reference page, in a browser', () => {
  let service: TestService;
  let browser: Browser;
  let page: Page;
  /** Whatever the browser complained of, the page's own policy being hurt among it, and requests to others. */
  let complaints: string[];

  beforeAll(async () => {
    service = await startService({ PUBLIC_BASE_URL: 'https://animals.example/v1' });
    browser = await chromium.launch({
      executablePath: CHROMIUM!,
      // Root may not use the sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
    });
  });
  afterAll(async () => {
    await browser?.close();
    await service.stop();
  });

  beforeEach(async () => {
    complaints = [];
    page = await browser.newPage();
    await watch(page);
    await page.goto(`${service.origin}/docs`);
  });
  afterEach(async () => {
    await page.close();
    expect(complaints).toEqual([]);
  });

  const watch = async (watched: Page) => {
    watched.setDefaultTimeout(60_000);
    watched.on('console', (message) => {
      // Chromium reports each answer of 400 and more, which a test may have asked for.
      if (
        ['error', 'warning'].includes(message.type()) &&
        !/status of 4\d\d/.test(message.text())
      ) {
        complaints.push(message.text());
      }
    });
    watched.on('pageerror', (error) => complaints.push(String(error)));
    watched.on('request', (request) => {
      if (!request.url().startsWith(`${service.origin}/`) && !request.url().startsWith('data:')) {
        complaints.push(request.url());
      }
    });
  };

  const operation = (id: string) => page.locator(`.opblock[id$="-${id}"]`);
  const open = (id: string) => operation(id).locator('.opblock-summary-control').click();
  const openDialog = () => page.locator('.scheme-container .authorize').click();
  const pasteKey = async (key: string) => {
    await openDialog();
    await page.locator('.auth-container input').fill(key);
    await page.locator('.auth-container .authorize').click();
    await page.locator('.auth-container .btn-done').click();
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

  it('adds an animal and lists it, with every digit of an int64', async () => {
    await pasteKey(service.key);
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
  });

  it('adds a second animal where the first one was added', async () => {
    await pasteKey(service.key);
    await open('createPet');
    const first = await execute('createPet');
    await operation('createPet').locator('.btn-clear').click();
    const second = await execute('createPet');
    expect([first.status, second.status]).toEqual(['201', '201']);
    expect(second.body).not.toBe(first.body);
  });

  it('accepts a key that is pasted with its scheme', async () => {
    await pasteKey(` bearer ${service.key}\n`);
    await open('listPets');
    expect((await execute('listPets')).status).toBe('200');
  });

  it('keeps the key for the tab, over a reload, until it is removed', async () => {
    await pasteKey(service.key);
    await page.reload();
    await open('listPets');
    expect((await execute('listPets')).status).toBe('200');
    const kept = () => page.evaluate('[Object.values(sessionStorage), Object.keys(localStorage)]');
    expect(await kept()).toEqual([[service.key], []]);
    expect(await page.context().cookies()).toEqual([]);

    await openDialog();
    await page.locator('.auth-container').getByRole('button', { name: 'Logout' }).click();
    expect(await kept()).toEqual([[], []]);
    // The address has the open operation now.
    await page.reload();
    expect((await execute('listPets')).status).toMatch(/^401/);
  });

  it('has samples with the address that it came from, in the guides too', async () => {
    await open('listPets');
    await execute('listPets');
    const curl = await operation('listPets').locator('.curl-command code').innerText();
    expect(curl).toContain(`'${service.origin}/v1/pets?limit=20'`);
    await page.goto(`${service.origin}/docs/guides/getting-started`);
    const sample = await page.locator('pre').first().innerText();
    expect(sample).toContain(`export BASE=${service.origin}/v1\n`);
  });

  it('shows a refusal as it came', async () => {
    await open('listPets');
    const { status, body } = await execute('listPets');
    expect(status).toMatch(/^401/);
    expect(JSON.parse(body)).toMatchObject({ code: 'missing_api_key' });
  });

  it('marks getPet as deprecated, with the date of its removal', async () => {
    const badge = await operation('getPet').locator('.badge').innerText();
    expect(badge).toBe('deprecated, to be removed on 5 December 2030');
    await pasteKey(service.key);
    await open('getPet');
    await operation('getPet').locator('[data-param-name=petId] input').fill('-9223372036854775807');
    const { status, headers } = await execute('getPet');
    expect(status).toMatch(/^404/);
    expect(headers.join()).toContain('deprecation: @1795046400');
  });

  it('marks listOrders as experimental, and offers nothing to try there', async () => {
    expect(await operation('listOrders').locator('.badge').innerText()).toBe('experimental');
    await open('listOrders');
    await open('createPet');
    await operation('createPet').locator('.execute').waitFor();
    await operation('listOrders').locator('.response').first().waitFor();
    expect(await operation('listOrders').locator('.execute, .try-out').count()).toBe(0);
    const fields = '.parameters :is(input, select):visible';
    expect(await operation('createPet').locator(fields).count()).toBeGreaterThan(0);
    expect(await operation('listOrders').locator(fields).count()).toBe(0);
  });

  it('shows an error in full when asked', async () => {
    await open('getPet');
    const error = operation('getPet').locator('.response[data-code="404"]');
    expect(await error.innerText()).toContain('pet_not_found');
    await error.getByRole('button', { name: 'Show' }).click();
    await error.locator('.highlight-code').waitFor();
  });

  it('is no wider than a phone', async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    await open('createPet');
    await operation('createPet').locator('.execute').waitFor();
    const widthOf = () => page.evaluate('document.documentElement.scrollWidth');
    expect(await widthOf()).toBe(360);
    for (const guide of ['getting-started', 'errors', 'retries', 'deprecation']) {
      await page.goto(`${service.origin}/docs/guides/${guide}`);
      expect(await widthOf()).toBe(360);
    }
  });

  it.each(
    FULL_LENGTH
      ? (['light', 'dark'] as const).flatMap((scheme) =>
          [1280, 390].map((w) => [scheme, w] as const),
        )
      : ([
          ['light', 1280],
          ['dark', 390],
        ] as const),
  )(
    'and the guides have no barrier that axe calls critical or serious, in %s, %i pixels wide',
    async (colorScheme, width) => {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      const barriers: string[] = [];
      const look = async (where: string, selector = 'html') => {
        await page.evaluate(AXE);
        const options = { rules: { 'target-size': { enabled: true } } };
        // At the top, where the header covers nothing.
        const { violations } = (await page.evaluate(
          `scrollTo(0, 0), axe.run('${selector}', ${JSON.stringify(options)})`,
        )) as AxeResults;
        barriers.push(
          ...violations
            .filter(({ impact }) => impact === 'critical' || impact === 'serious')
            .flatMap(({ id, nodes }) =>
              nodes.map(({ html }) => `${where} at ${width}, ${colorScheme}: ${id}: ${html}`),
            ),
        );
      };
      for (const id of ['listPets', 'createPet', 'getPet', 'listOrders']) {
        await open(id);
      }
      await execute('createPet');
      await look('/docs');
      await openDialog();
      await page.locator('.auth-container input').waitFor();
      await look('the dialog', '.dialog-ux');
      for (const guide of GUIDES) {
        await page.goto(`${service.origin}/docs/guides/${guide}`);
        await look(guide);
      }
      expect(barriers).toEqual([]);
    },
  );

  it.each(['light', 'dark'] as const)('is %s where the reader likes it so', async (colorScheme) => {
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
  });
});
