/** Queues that take turns, so that none waits longer because another one is long. */
export class Turns<Name, Item> {
  /** None is empty. The next turn is that of the first one. */
  private readonly queues = new Map<Name, Item[]>();
  size = 0;

  get queueCount(): number {
    return this.queues.size;
  }

  has(name: Name): boolean {
    return this.queues.has(name);
  }

  add(name: Name, item: Item): void {
    const queue = this.queues.get(name);
    if (queue === undefined) {
      this.queues.set(name, [item]);
    } else {
      queue.push(item);
    }
    this.size += 1;
  }

  /** Takes the first item of the queue whose turn it is, or of the named one. It has its next turn after all others. */
  next(name: Name | undefined = this.queues.keys().next().value): Item | undefined {
    const queue = this.queues.get(name!);
    if (queue === undefined) {
      return undefined;
    }
    this.queues.delete(name!);
    if (queue.length > 1) {
      this.queues.set(name!, queue);
    }
    this.size -= 1;
    return queue.shift();
  }

  delete(name: Name, item: Item): void {
    const queue = this.queues.get(name) ?? [];
    const position = queue.indexOf(item);
    if (position < 0) {
      return;
    }
    queue.splice(position, 1);
    if (queue.length === 0) {
      this.queues.delete(name);
    }
    this.size -= 1;
  }

  /** The queues, each with its oldest item first. */
  values(): Iterable<readonly Item[]> {
    return this.queues.values();
  }
}
