/** Taken items are removed so many at once: to move all others for each would take long in a long queue. */
const REMOVED_AT_ONCE = 1024;

/** The items from `first` on wait. */
interface Queue<Item> {
  items: (Item | undefined)[];
  first: number;
}

/** Queues that take turns, so that none waits longer because another one is long. */
export class Turns<Name, Item> {
  /** None is empty. The next turn is that of the first one. */
  private readonly queues = new Map<Name, Queue<Item>>();
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
      this.queues.set(name, { items: [item], first: 0 });
    } else {
      queue.items.push(item);
    }
    this.size += 1;
  }

  /** Takes the first item of the queue whose turn it is, or of the named one. It has its next turn after all others. */
  next(name: Name | undefined = this.queues.keys().next().value): Item | undefined {
    const queue = this.queues.get(name!);
    if (queue === undefined) {
      return undefined;
    }
    const { items, first } = queue;
    const item = items[first];
    items[first] = undefined;
    queue.first += 1;
    if (queue.first === REMOVED_AT_ONCE) {
      items.splice(0, REMOVED_AT_ONCE);
      queue.first = 0;
    }
    this.queues.delete(name!);
    if (items.length > queue.first) {
      this.queues.set(name!, queue);
    }
    this.size -= 1;
    return item;
  }

  delete(name: Name, item: Item): void {
    const { items, first } = this.queues.get(name) ?? { items: [], first: 0 };
    const position = items.indexOf(item);
    if (position < 0) {
      return;
    }
    items.splice(position, 1);
    if (items.length === first) {
      this.queues.delete(name);
    }
    this.size -= 1;
  }

  /** The newest item of each queue. */
  *newest(): Iterable<Item> {
    for (const { items } of this.queues.values()) {
      yield items.at(-1)!;
    }
  }
}
