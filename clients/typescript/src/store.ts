import type { Rondo, RunRequest } from "./client.js";
import { defined, RondoError } from "./error.js";
import type { RondoEvent } from "./events.js";
import { type Conversation, empty, fold, loaded } from "./fold.js";
import { type CallAnswer, CallRunner, type ClientTools } from "./tools.js";
import type * as api from "./schema.js";

/** Messages of one request, when a thread is read. */
const PAGE = 1000;

/** A conversation, and how the page stands to the server. */
export interface ThreadState extends Conversation {
  /** Whether the thread has been read. */
  isLoaded: boolean;
  /** Whether a message is on its way. */
  isSending: boolean;
  /** Why the thread can no longer be read, or why the last request failed. */
  error?: Error;
}

export interface ThreadStoreOptions {
  app: string;
  /** Without one, the first message makes a thread. */
  threadId?: string | undefined;
  /** Tools that this page runs. */
  tools?: ClientTools | undefined;
}

/** A thread for a page: it is read and followed as long as there are subscribers. Frameworks wrap it, as the React hook does. */
export class ThreadStore {
  readonly rondo: Rondo;
  readonly app: string;
  tools: ClientTools;
  threadId: string | undefined;
  #state: ThreadState;
  #listeners = new Set<() => void>();
  #following: AbortController | undefined;

  constructor(rondo: Rondo, { app, threadId, tools = {} }: ThreadStoreOptions) {
    this.rondo = rondo;
    this.app = app;
    this.threadId = threadId;
    this.tools = tools;
    this.#state = { ...empty, isLoaded: !threadId, isSending: false, ...defined("threadId", threadId) };
  }

  readonly snapshot = (): ThreadState => this.#state;

  /** Calls the listener after each change. The answer ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    // A subscriber that comes twice in one moment, as React does in its strict mode, reads the thread once.
    queueMicrotask(() => this.#begin());
    return () => {
      this.#listeners.delete(listener);
      queueMicrotask(() => {
        if (this.#listeners.size) return;
        this.#following?.abort();
        this.#following = undefined;
      });
    };
  };

  #begin(): void {
    if (!this.#listeners.size || this.#following || !this.threadId) return;
    const following = (this.#following = new AbortController());
    this.#follow(this.threadId, following.signal).catch((error: Error) => {
      if (following.signal.aborted) return;
      this.#following = undefined;
      this.#set({ error, isLoaded: true });
    });
  }

  async #follow(threadId: string, signal: AbortSignal): Promise<void> {
    const runner = new CallRunner(this.rondo, () => this.tools, signal);
    const take = (event: RondoEvent) => {
      const next = fold(this.#state, event) as ThreadState;
      const { stale, ...shown } = next;
      this.#replace(stale ? shown : next);
      if (event.type === "call:open") runner.begin(event.data);
      return stale;
    };
    for (;;) {
      const path = { thread: threadId };
      const thread = await this.rondo.request("GET /v1/threads/{thread}", { path, signal });
      const messages: api.Message[] = [];
      const listing = this.rondo.list("GET /v1/threads/{thread}/messages", { path, query: { limit: PAGE }, signal });
      for await (const message of listing) messages.push(message);
      const { activeRunId, lastSeq } = thread;
      const { isSending, error } = this.#state;
      const known = { ...loaded(thread, messages), isLoaded: true, isSending, ...defined("error", error) };
      this.#replace(activeRunId ? { ...known, seq: 0 } : known);
      let stale: true | undefined;
      if (activeRunId) {
        // The words of the active run are in no message yet.
        for await (const event of this.rondo.resume(activeRunId, 0, { signal })) {
          stale = take(event);
          if (stale || event.seq >= lastSeq) break;
        }
      }
      if (stale) continue;
      for await (const event of this.rondo.threadEvents(threadId, lastSeq, signal)) {
        if (take(event)) break;
      }
    }
  }

  /** Sends a message, or a request with all its options. It is accepted when this ends; the answer comes by itself. */
  async send(request: string | RunRequest): Promise<{ runId: string; threadId: string }> {
    const { tools, ...asked } = typeof request === "string" ? { message: request } : request;
    this.tools = { ...this.tools, ...tools };
    this.#set({ isSending: true, error: undefined });
    try {
      const threadId = asked.threadId ?? this.threadId;
      const run = this.rondo.app(this.app).run({ ...asked, ...defined("threadId", threadId), tools: this.tools });
      const started = await run.started;
      await run.detach();
      this.threadId ??= started.threadId;
      this.#set({ threadId: this.threadId });
      this.#begin();
      return started as { runId: string; threadId: string };
    } catch (error) {
      this.#set({ error: error as Error });
      throw error;
    } finally {
      this.#set({ isSending: false });
    }
  }

  /** Cancels the run under way. */
  async stop(): Promise<void> {
    const { runId } = this.#state;
    if (runId) await this.#request(() => this.rondo.cancel(runId));
  }

  approve(proposalId: string): Promise<void> {
    return this.#request(() => this.rondo.confirm(proposalId));
  }

  reject(proposalId: string): Promise<void> {
    return this.#request(() => this.rondo.reject(proposalId));
  }

  /** Answers a call that waits for the client. */
  answer(callId: string, answer: CallAnswer): Promise<void> {
    return this.#request(() => this.rondo.answer(callId, answer));
  }

  /** Shows the branch of this message. */
  async choose(messageId: string): Promise<void> {
    const { threadId } = this;
    if (threadId) await this.#request(() => this.rondo.thread(threadId).setHead(messageId));
  }

  /** An earlier decision by another client is not an error of this page. */
  async #request(make: () => Promise<unknown>): Promise<void> {
    try {
      await make();
    } catch (error) {
      if (error instanceof RondoError && ["proposal_decided", "call_answered"].includes(error.code)) return;
      this.#set({ error: error as Error });
      throw error;
    }
  }

  #set(change: { [K in keyof ThreadState]?: ThreadState[K] | undefined }): void {
    this.#replace({ ...this.#state, ...change } as ThreadState);
  }

  #replace(state: ThreadState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
