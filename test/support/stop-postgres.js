/** After all tests. */
export default async function stop() {
  const { dropDatabase } = await import('./database.js');
  if (globalThis.testTemplate) {
    await dropDatabase(globalThis.testTemplate);
  }
  if (globalThis.testPostgres) {
    await globalThis.testPostgres.stop();
    // With --watch, the next run starts another one.
    delete process.env.TEST_DATABASE_URL;
  }
}
