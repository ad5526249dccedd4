// A list of the server, page by page, with its four states.

import { get, type Page } from './api.ts';

export class Listing<T> {
  items = $state.raw<T[]>([]);
  state = $state<'loading' | 'ready' | 'failed'>('loading');
  problem = $state('');
  next = $state<string | null>(null);
  #turn = 0;
  #path = '';
  #query: Record<string, string | number | boolean | null | undefined> = {};

  /** Reads the first page. The old entries stay until the new ones are there. */
  async load(path: string, query: Record<string, string | number | boolean | null | undefined> = {}): Promise<void> {
    if (path !== this.#path) {
      this.items = [];
      this.state = 'loading';
    }
    this.#path = path;
    this.#query = query;
    await this.again();
  }

  async again(): Promise<void> {
    const turn = ++this.#turn;
    if (this.state === 'failed') this.state = 'loading';
    try {
      const page = await get<Page<T>>(this.#path, this.#query);
      if (turn !== this.#turn) return;
      this.items = page.data;
      this.next = page.next ?? null;
      this.state = 'ready';
    } catch (error) {
      if (turn !== this.#turn) return;
      this.state = 'failed';
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  async more(): Promise<void> {
    if (!this.next) return;
    const turn = this.#turn;
    const page = await get<Page<T>>(this.#path, { ...this.#query, cursor: this.next });
    if (turn !== this.#turn) return;
    this.items = [...this.items, ...page.data];
    this.next = page.next ?? null;
  }
}
