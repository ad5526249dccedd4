// The threads of the rail, the most recently used first.

import { get, type Page, patch, remove } from './api.ts';
import { hub } from './hub.ts';
import { session } from './session.svelte.ts';
import { strings } from '../strings.ts';
import type { ThreadView } from './types.ts';
import { ui } from './ui.svelte.ts';
import { withoutHidden } from './visible.ts';

const PAGE_SIZE = 200;
/** Milliseconds in which a deletion can be undone. */
const DELETE_DELAY_MS = 6_000;
/** Pages of one search for a thread's place at most. */
const MAX_PAGES = 100;

export interface ThreadHit {
  thread: ThreadView;
  titleMatch: boolean;
  matches: { messageId: string; role: string; text: string; createdAt: string }[];
}

class Threads {
  list = $state.raw<ThreadView[]>([]);
  state = $state<'loading' | 'ready' | 'failed'>('loading');
  problem = $state('');
  archived = $state(false);
  /** Only the threads of this app. */
  app = $state<string | null>(null);
  more = $state(false);
  readonly #cursors = new Map<string, string | null>();
  readonly #hidden = new Map<string, ReturnType<typeof setTimeout>>();
  #loading = 0;
  #started = false;

  start(): void {
    if (this.#started) return;
    this.#started = true;
    void this.load();
    hub.onNotice(({ type, data }) => {
      if (type === 'resync') void this.load();
      else if (type === 'notice:thread') {
        const id = String(data.threadId);
        if (data.change === 'deleted') this.#drop(id);
        else void this.reload(id);
      } else if (type === 'notice:run') this.#markRun(String(data.threadId), String(data.runId), String(data.status));
    });
    addEventListener('pagehide', () => this.#deleteNow());
  }

  async load(): Promise<void> {
    const turn = ++this.#loading;
    this.state = this.list.length ? this.state : 'loading';
    this.#cursors.clear();
    try {
      const found = await this.#pages(true);
      if (turn !== this.#loading) return;
      this.list = found;
      this.state = 'ready';
    } catch (error) {
      if (turn !== this.#loading) return;
      this.state = 'failed';
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  async loadMore(): Promise<void> {
    if (!this.more) return;
    this.more = false;
    const turn = this.#loading;
    const found = await this.#pages(false);
    if (turn === this.#loading) this.#merge(found);
  }

  /** Reads everything, for a search in the list. */
  async loadAll(): Promise<void> {
    for (let page = 0; page < MAX_PAGES && this.more; page += 1) await this.loadMore();
  }

  /** The next page of each app. */
  async #pages(first: boolean): Promise<ThreadView[]> {
    const apps = this.app ? [this.app] : session.apps.map((app) => app.id);
    const asked = apps.filter((app) => first || this.#cursors.get(app));
    const pages = await Promise.all(
      asked.map(async (app) => {
        const query = { limit: PAGE_SIZE, cursor: this.#cursors.get(app), archived: this.archived ? 'true' : undefined };
        const page = await get<Page<ThreadView>>(`v1/apps/${app}/threads`, query);
        this.#cursors.set(app, page.next);
        return page.data;
      }),
    );
    this.more = [...this.#cursors.values()].some((cursor) => cursor);
    return sorted(pages.flat().filter((thread) => !this.#hidden.has(thread.id)));
  }

  #merge(found: ThreadView[]): void {
    const byId = new Map(this.list.map((thread) => [thread.id, thread]));
    for (const thread of found) if (!this.#hidden.has(thread.id)) byId.set(thread.id, thread);
    this.list = sorted([...byId.values()]);
  }

  #drop(id: string): void {
    this.list = this.list.filter((thread) => thread.id !== id);
  }

  /** Puts a thread in its place, as it is now. */
  put(thread: ThreadView): void {
    const fits = (!this.app || thread.appId === this.app) && Boolean(thread.archived) === this.archived;
    if (fits) this.#merge([thread]);
    else this.#drop(thread.id);
  }

  async reload(id: string): Promise<void> {
    try {
      this.put(await get<ThreadView>(`v1/threads/${id}`));
    } catch {
      this.#drop(id);
    }
  }

  #markRun(threadId: string, runId: string, status: string): void {
    const thread = this.list.find((each) => each.id === threadId);
    if (!thread) return void this.reload(threadId);
    const isActive = status === 'running' || status === 'waiting';
    const activeRunId = isActive ? runId : thread.activeRunId === runId ? null : thread.activeRunId;
    if (activeRunId !== thread.activeRunId) this.#merge([{ ...thread, activeRunId }]);
  }

  find(id: string): ThreadView | undefined {
    return this.list.find((thread) => thread.id === id);
  }

  async change(thread: ThreadView, change: { title?: string; pinned?: boolean; archived?: boolean }): Promise<void> {
    this.put({ ...thread, ...change });
    try {
      this.put(await patch<ThreadView>(`v1/threads/${thread.id}`, change));
    } catch (error) {
      this.put(thread);
      ui.fail(error);
    }
  }

  /** Hides the thread, and deletes it when the time to undo that is over. */
  delete(thread: ThreadView): void {
    this.#drop(thread.id);
    this.#hidden.set(
      thread.id,
      setTimeout(() => this.#reallyDelete(thread.id), DELETE_DELAY_MS),
    );
    ui.toast(strings.threads.deleted(withoutHidden(thread.title ?? strings.threads.untitled)), {
      label: strings.undo,
      act: () => {
        clearTimeout(this.#hidden.get(thread.id));
        this.#hidden.delete(thread.id);
        this.put(thread);
      },
    });
  }

  #reallyDelete(id: string): void {
    if (!this.#hidden.delete(id)) return;
    remove(`v1/threads/${id}`).catch((error) => {
      ui.fail(error);
      void this.reload(id);
    });
  }

  #deleteNow(): void {
    for (const id of [...this.#hidden.keys()]) this.#reallyDelete(id);
  }

  async search(words: string, signal: AbortSignal): Promise<ThreadHit[]> {
    const apps = this.app ? [this.app] : session.apps.map((app) => app.id);
    const pages = await Promise.all(apps.map((app) => get<Page<ThreadHit>>(`v1/apps/${app}/threads/search`, { q: words, limit: 20 }, signal)));
    return pages.flatMap((page) => page.data);
  }
}

function sorted(threads: ThreadView[]): ThreadView[] {
  return threads.sort((a, b) => Number(b.pinned ?? false) - Number(a.pinned ?? false) || (a.updatedAt < b.updatedAt ? 1 : -1));
}

export const threads = new Threads();
