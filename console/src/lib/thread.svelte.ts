// One conversation on the page: its messages, the answer under way, and what the reader does with it.

import { type Conversation, empty, fold, loaded, type RondoEvent, type ShownCall, type ShownMessage } from '@rondo/client';
import { ApiError, get, type Page, post, put } from './api.ts';
import { hub } from './hub.ts';
import { rondo } from './source.ts';
import { strings } from '../strings.ts';
import { threads } from './threads.svelte.ts';
import { inbox } from './inbox.svelte.ts';
import type { ActionView, Message, MessagePart, QueuedMessage, ThreadView } from './types.ts';
import { ui } from './ui.svelte.ts';

const MESSAGE_PAGE = 1000;
/** Pages of messages at most. */
const MAX_PAGES = 100;
const RECENT_ACTIONS = 200;
/** A replay that is silent for this long is complete, as far as a reader can tell. In milliseconds. */
const REPLAY_QUIET_MS = 400;

export interface Wish {
  text: string;
  parts?: { type: string; imageId?: string; documentId?: string }[];
  shown?: MessagePart[];
  model?: string;
  personaId?: string;
  documentIds?: string[];
  parentId?: string;
}
/** The facts that events tell about a run and the fold leaves out. */
export interface RunFacts {
  memories: string[];
  startedAt?: number;
  firstTextAt?: number;
  endedAt?: number;
}
type DeltaTaker = (delta: string) => void;

export class ThreadPage {
  conversation = $state.raw<Conversation>(empty);
  thread = $state.raw<ThreadView | null>(null);
  state = $state<'loading' | 'ready' | 'failed' | 'gone'>('loading');
  problem = $state('');
  /** A message that was sent and that the server has not told yet. */
  sending = $state.raw<Wish | null>(null);
  queue = $state.raw<QueuedMessage[]>([]);
  stopping = $state(false);
  actions = $state.raw<Map<string, ActionView>>(new Map());
  effects = $state.raw<Map<string, string>>(new Map());
  /** The server's facts about stored messages, by id: siblings, times, usage. */
  stored = $state.raw<Map<string, Message>>(new Map());
  readonly facts = new Map<string, RunFacts>();
  readonly #takers = new Map<string, Set<DeltaTaker>>();
  #next: Conversation = empty;
  #planned = false;
  #stop = new AbortController();
  #unfollow: () => void = () => {};
  #unhear: () => void = () => {};
  /** Runs that wait no longer. A list that was asked for before may still have them. */
  readonly #left = new Set<string>();

  constructor(
    readonly id: string,
    readonly fresh = false,
  ) {}

  get isBusy(): boolean {
    return this.conversation.status !== 'idle' || this.sending !== null;
  }

  async load(): Promise<void> {
    this.#stop.abort();
    this.#unfollow();
    this.#unhear();
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    try {
      const thread = await get<ThreadView>(`v1/threads/${this.id}`, {}, signal);
      const messages = await this.#messages(signal);
      if (signal.aborted) return;
      this.thread = thread;
      this.stored = new Map(messages.map((message) => [message.id, message]));
      const position = await this.#replay(thread, messages, signal);
      if (signal.aborted) return;
      this.state = 'ready';
      this.#show();
      this.#unfollow = hub.follow(this.id, { position, take: ({ event }) => this.#take(event) });
      this.#unhear = hub.onNotice(({ type, data }) => (type === 'resync' || (type === 'notice:run' && data.threadId === this.id && data.status === 'queued')) && void this.loadQueue());
      void this.loadQueue();
      void this.loadActions();
    } catch (error) {
      if (signal.aborted) return;
      this.state = error instanceof ApiError && error.status === 404 ? 'gone' : 'failed';
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  close(): void {
    this.#stop.abort();
    this.#unfollow();
    this.#unhear();
  }

  async #messages(signal: AbortSignal): Promise<Message[]> {
    const all: Message[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { data, next }: Page<Message> = await get(`v1/threads/${this.id}/messages`, { limit: MESSAGE_PAGE, cursor }, signal);
      all.push(...data);
      if (!next) break;
      cursor = next;
    }
    return all;
  }

  /**
   * Shows the stored messages. The newest run is read from its events, so that a page that is opened again shows its
   * steps just as the page before. Returns the number of the last event that is on the page.
   */
  async #replay(thread: ThreadView, messages: Message[], signal: AbortSignal): Promise<number> {
    const whole = loaded(thread as never, messages as never);
    const run = thread.activeRunId ?? messages.at(-1)?.runId;
    this.#next = whole;
    if (!run) return thread.lastSeq;
    const before = messages.filter((message) => !(message.runId === run && message.role === 'assistant'));
    let state: Conversation = { ...loaded(thread as never, before as never), seq: 0 };
    let last = 0;
    const quiet = new AbortController();
    signal.addEventListener('abort', () => quiet.abort(), { once: true });
    let timer = setTimeout(() => quiet.abort(), 10 * REPLAY_QUIET_MS);
    try {
      for await (const event of rondo.resume(run, 0, { signal: quiet.signal })) {
        clearTimeout(timer);
        timer = setTimeout(() => quiet.abort(), REPLAY_QUIET_MS);
        if (event.type === 'snapshot') return (this.#next = whole), thread.lastSeq;
        this.#note(event, false);
        state = fold(state, event);
        last = event.seq;
        if (event.seq >= thread.lastSeq) break;
      }
    } catch {
      if (signal.aborted) return last;
    } finally {
      clearTimeout(timer);
      quiet.abort();
    }
    if (last === 0) {
      // Nothing came in time: the messages are shown, and the channel brings the rest.
      if (!thread.activeRunId) return thread.lastSeq;
      this.#next = { ...whole, seq: 0 };
      return 0;
    }
    this.#next = { ...state, seq: Math.max(last, thread.activeRunId ? last : thread.lastSeq) };
    return this.#next.seq;
  }

  /** Messages that wait, from every tab and device. */
  async loadQueue(): Promise<void> {
    try {
      const { data } = await get<Page<QueuedMessage>>(`v1/threads/${this.id}/queue`, {}, this.#stop.signal);
      this.queue = data.filter(({ runId }) => !this.#left.has(runId));
    } catch {
      // The messages are answered all the same.
    }
  }

  /** How the run of a message ended, if it ended without an answer. */
  ending(message: ShownMessage): { runId: string | null; status: string; error?: { code: string; message: string } } | undefined {
    const stored = message.id ? this.stored.get(message.id) : undefined;
    if (stored?.role !== 'user' || !stored.status) return undefined;
    return { runId: stored.runId, status: stored.status, error: stored.error };
  }

  async loadActions(): Promise<void> {
    const app = this.thread?.appId;
    if (!app) return;
    try {
      const page = await get<Page<ActionView>>(`v1/apps/${app}/actions`, { thread: this.id, limit: RECENT_ACTIONS }, this.#stop.signal);
      this.actions = new Map(page.data.map((action) => [action.id.replace(/^act_/, 'call_'), action]));
    } catch {
      // Cards then show no undo.
    }
  }

  /** Text that arrives for a step goes straight to its view. Returns how to end that. */
  onDelta(key: string, take: DeltaTaker): () => void {
    const takers = this.#takers.get(key) ?? new Set();
    takers.add(take);
    this.#takers.set(key, takers);
    return () => takers.delete(take);
  }

  #note(event: RondoEvent, live: boolean): void {
    const run = event.type === 'run:start' ? event.data.runId : this.#next.runId;
    if (event.type === 'tool:start') {
      this.effects = new Map(this.effects).set(event.data.callId, event.data.effect ?? '');
    } else if (event.type === 'run:start') {
      this.facts.set(event.data.runId, { memories: [], ...(live ? { startedAt: performance.now() } : {}) });
    } else if (event.type === 'context:loaded' && run) {
      const facts = this.facts.get(run) ?? { memories: [] };
      this.facts.set(run, { ...facts, memories: event.data.memories ?? [] });
    } else if (event.type === 'text:delta' && run && live) {
      const facts = this.facts.get(run);
      if (facts?.startedAt && !facts.firstTextAt) facts.firstTextAt = performance.now();
    } else if (event.type === 'run:end' && live) {
      const facts = this.facts.get(event.data.runId);
      if (facts) facts.endedAt = performance.now();
    }
  }

  #take(event: RondoEvent): void {
    this.#note(event, true);
    const before = this.#next;
    this.#next = fold(this.#next, event);
    if (event.type === 'text:delta' || event.type === 'reasoning:delta') {
      const key = `${this.#next.runId}:${event.data.step}:${event.type}`;
      for (const take of this.#takers.get(key) ?? []) take(event.data.delta);
      // The view has it already. The state follows with the next frame, so that counts and buttons are right.
    }
    if (event.type === 'message:user' || event.type === 'run:start') this.#arrived(event);
    if (event.type === 'run:end') this.#ended(event.data, before);
    if (event.type === 'proposal:open' || event.type === 'call:open') {
      inbox.soon();
      ui.say(strings.chat.needsYou);
    }
    if (event.type === 'proposal:closed' || event.type === 'tool:complete') inbox.soon();
    if (event.type === 'thread:named' && this.thread) {
      this.thread = { ...this.thread, title: event.data.title };
      threads.put({ ...(threads.find(this.id) ?? this.thread), title: event.data.title });
    }
    if (this.#next.stale) {
      void this.load();
      return;
    }
    this.#show();
  }

  #arrived(event: RondoEvent): void {
    this.sending = null;
    if (event.type === 'run:start') {
      this.#leaveQueue(event.data.runId);
      const known = threads.find(this.id) ?? this.thread;
      if (known) threads.put({ ...known, activeRunId: event.data.runId, updatedAt: new Date().toISOString() });
    }
  }

  #ended(end: { runId: string; status: string }, before: Conversation): void {
    this.#leaveQueue(end.runId);
    if (end.runId !== before.runId) return;
    this.stopping = false;
    ui.say(end.status === 'completed' ? strings.chat.answered : strings.chat.endedAs(end.status));
    const known = threads.find(this.id) ?? this.thread;
    if (known) threads.put({ ...known, activeRunId: null, updatedAt: new Date().toISOString() });
    void this.loadActions();
    void this.#annotate();
  }

  /** Adds the server's facts to stored messages, such as usage and siblings. The text on the page stays untouched. */
  async #annotate(): Promise<void> {
    try {
      const messages = await this.#messages(this.#stop.signal);
      this.stored = new Map(messages.map((message) => [message.id, message]));
    } catch {
      // It is shown with the next load.
    }
  }

  #show(): void {
    if (this.#planned) return;
    this.#planned = true;
    const show = (): void => {
      this.#planned = false;
      this.conversation = this.#next;
    };
    if (document.hidden) setTimeout(show, 100);
    else requestAnimationFrame(show);
  }

  async send(app: string, wish: Wish): Promise<void> {
    const busy = this.isBusy;
    const { text, parts, shown: _, ...rest } = wish;
    if (!busy) this.sending = wish;
    try {
      const body = { ...rest, threadId: this.id, ...(text ? { message: text } : {}), ...(parts?.length ? { parts } : {}) };
      const { runId } = await start(app, body);
      if (busy && !this.queue.some((queued) => queued.runId === runId) && this.#next.runId !== runId) this.queue = [...this.queue, { runId, text }];
    } catch (error) {
      this.sending = null;
      throw error;
    }
  }

  async regenerate(message: ShownMessage, model?: string): Promise<void> {
    const app = this.thread?.appId;
    if (!app || !message.id) return;
    try {
      await start(app, { threadId: this.id, regenerate: message.id, ...(model ? { model } : {}) });
    } catch (error) {
      ui.fail(error);
    }
  }

  async stop(): Promise<void> {
    const { runId } = this.conversation;
    if (!runId || this.stopping) return;
    this.stopping = true;
    try {
      await post(`v1/runs/${runId}/cancel`);
    } catch (error) {
      this.stopping = false;
      ui.fail(error);
    }
  }

  async unqueue(queued: QueuedMessage): Promise<void> {
    try {
      await post(`v1/runs/${queued.runId}/cancel`);
      this.#leaveQueue(queued.runId);
    } catch (error) {
      ui.fail(error);
    }
  }

  /** Shows the branch of a message. */
  async choose(messageId: string): Promise<void> {
    try {
      await put(`v1/threads/${this.id}/head`, { messageId });
      await this.load();
    } catch (error) {
      ui.fail(error);
    }
  }

  #leaveQueue(run: string): void {
    this.#left.add(run);
    if (this.queue.some(({ runId }) => runId === run)) this.queue = this.queue.filter(({ runId }) => runId !== run);
  }
}

/** Sends a message. The answer comes over the channel, so this function does not wait for it. */
export async function start(app: string, body: object): Promise<{ runId: string; threadId: string }> {
  const run = rondo.app(app).run(body as never);
  const started = await run.started;
  await run.detach();
  return { runId: started.runId, threadId: started.threadId ?? '' };
}

export type { ShownCall, ShownMessage };
