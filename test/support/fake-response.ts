/** What the guards of `src/auth` use of a response. */
export class FakeResponse {
  readonly onceEnded: (() => void)[] = [];
  readonly onceClosed: (() => void)[] = [];
  bytes = 0;
  getHeader = () => this.bytes;
  end = () => this.onceEnded.splice(0).forEach((act) => act());
  close(): void {
    this.end();
    this.onceClosed.forEach((act) => act());
  }
}
