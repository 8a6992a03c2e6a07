/** After all tests. */
export default async function stop() {
  if (globalThis.testPostgres) {
    await globalThis.testPostgres.stop();
    // With --watch, the next run starts another one.
    delete process.env.TEST_DATABASE_URL;
  } else {
    const { ask } = await import('./ask.js');
    const { TEST_DATABASE_URL, TEST_TEMPLATE } = process.env;
    await ask(String(TEST_DATABASE_URL), `drop database if exists ${TEST_TEMPLATE}`);
  }
}
