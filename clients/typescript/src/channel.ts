import type { ChannelEvent, RondoEvent } from "./events.js";
import type { Http } from "./http.js";
import { parsed } from "./run.js";
import type { Frame } from "./sse.js";
import { follow } from "./stream.js";

export interface ChannelOptions {
  /** Threads whose events come on the same connection: each with the number of the last event that was read. */
  follow?: Record<string, number>;
  /** The number of the last notice that was read. */
  after?: number;
  signal?: AbortSignal;
}

/** The channel of the user: notices about everything that is theirs, and the events of some threads. It has no end. */
export class UserChannel implements AsyncIterable<ChannelEvent> {
  /** The number of the last notice. */
  after: number | undefined;
  /** The followed threads, each with the number of the last event that was read. */
  readonly positions: Map<string, number>;
  readonly #http: Http;
  readonly #signal: AbortSignal | undefined;
  /** The channel tells of everything from now on, so this is the time to read lists. It needs a reader of the channel. */
  readonly opened: Promise<void>;
  #isOpened = () => {};
  /** Ends the connection, so that the next one follows other threads. */
  #reopen: (() => void) | undefined;

  constructor(http: Http, options: ChannelOptions) {
    this.#http = http;
    this.#signal = options.signal;
    this.after = options.after;
    this.positions = new Map(Object.entries(options.follow ?? {}));
    this.opened = new Promise((resolve) => (this.#isOpened = resolve));
  }

  /** Follows another thread, after this event. */
  follow(threadId: string, seq: number): void {
    this.positions.set(threadId, seq);
    this.#reopen?.();
  }

  unfollow(threadId: string): void {
    if (this.positions.delete(threadId)) this.#reopen?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChannelEvent, void, undefined> {
    for (;;) {
      let isReopened = false;
      const own = new AbortController();
      const end = () => own.abort(this.#signal?.reason);
      this.#signal?.throwIfAborted();
      this.#signal?.addEventListener("abort", end, { once: true });
      this.#reopen = () => {
        isReopened = true;
        own.abort();
      };
      try {
        yield* follow(this.#http, { open: (signal) => this.#open(signal), read: (frame) => this.#read(frame) }, own.signal);
        return;
      } catch (error) {
        if (!isReopened || this.#signal?.aborted) throw error;
      } finally {
        this.#reopen = undefined;
        this.#signal?.removeEventListener("abort", end);
      }
    }
  }

  #open(signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (this.after !== undefined) headers["last-event-id"] = String(this.after);
    const follow = [...this.positions].map(([thread, seq]) => `${thread}:${seq}`).join(",") || undefined;
    return this.#http.attempt("GET", "/v1/events", { query: { follow }, headers, signal });
  }

  #read({ event, id, data: text }: Frame): ChannelEvent | undefined {
    const data = text && JSON.parse(text);
    if (id === undefined) {
      const { threadId, seq } = data;
      const last = this.positions.get(threadId);
      if (last === undefined || seq <= last) return undefined;
      this.positions.set(threadId, seq);
      return { type: event, ...data } as ChannelEvent;
    }
    const number = Number(id);
    const isOld = this.after !== undefined && number <= this.after && event !== "resync";
    this.#isOpened();
    if (isOld) return undefined;
    this.after = number;
    return event ? ({ type: event, id: number, data } as ChannelEvent) : undefined;
  }
}

/** The channel of one thread: the events of all its runs and of the thread itself. It has no end. */
export async function* threadEvents(http: Http, threadId: string, after: number, signal?: AbortSignal): AsyncGenerator<RondoEvent, void, undefined> {
  let last = after;
  yield* follow(
    http,
    {
      open: (signal: AbortSignal) => {
        const headers = { accept: "text/event-stream", "last-event-id": String(last) };
        return http.attempt("GET", `/v1/threads/${threadId}/events`, { headers, signal });
      },
      read: (frame: Frame) => {
        const event = parsed(frame);
        if (!event || event.seq <= last) return undefined;
        last = event.seq;
        return event;
      },
    },
    signal,
  );
}
