// Reads events with the client library, over as few connections as possible. A lost connection is made again by the library.

import { type ChannelEvent, Rondo, RondoError, type RondoEvent, type UserChannel } from '@rondo/client';
import { address, root } from './api.ts';

export interface Frame {
  thread: string;
  seq: number;
  /** The number of the event that this connection brought before, so that a reader notices a gap. */
  previous: number;
  event: RondoEvent;
}
export interface NoticeFrame {
  type: string;
  data: Record<string, unknown>;
}
export type LinkState = 'connecting' | 'connected' | 'lost' | 'refused';

export interface SourceReader {
  frame(frame: Frame): void;
  notice(notice: NoticeFrame): void;
  link(state: LinkState): void;
  /** The server has no user channel. */
  missing(): void;
}

export interface FeedSource {
  /** Which threads to follow, each from after an event. */
  follow(threads: Map<string, number>): void;
  /** Connects at once. */
  nudge(): void;
  close(): void;
}

/** Called with the state of the connection that brings events. */
let tellLink: (state: LinkState) => void = () => {};

/** `fetch` that tells how the connections with events stand. */
const watchedFetch: typeof fetch = async (input, init) => {
  const isFeed = /\/v1\/(events(\?|$)|threads\/[^/]+\/events)/.test(String(input));
  if (!isFeed) return fetch(input, init);
  tellLink('connecting');
  let response: Response;
  try {
    response = await fetch(input, init);
  } catch (error) {
    tellLink('lost');
    throw error;
  }
  if (!response.ok || !response.body) {
    tellLink('lost');
    return response;
  }
  tellLink('connected');
  const watched = response.body.pipeThrough(new TransformStream({ flush: () => tellLink('lost') }));
  return new Response(watched, { status: response.status, headers: response.headers });
};

export const rondo = new Rondo({ baseUrl: root.href.replace(/\/$/, ''), fetch: watchedFetch, retries: Infinity });

/** A connection for each thread, for servers without the user channel. */
export class ThreadSource implements FeedSource {
  readonly #open = new Map<string, { stop: AbortController; position: number }>();

  constructor(readonly reader: SourceReader) {
    tellLink = (state) => reader.link(state);
    reader.link('connected');
  }

  follow(threads: Map<string, number>): void {
    for (const [thread, { stop, position }] of this.#open) {
      const wanted = threads.get(thread);
      if (wanted !== undefined && wanted >= position) continue;
      stop.abort();
      this.#open.delete(thread);
    }
    for (const [thread, after] of threads) if (!this.#open.has(thread)) void this.#read(thread, after);
  }

  async #read(thread: string, after: number): Promise<void> {
    const entry = { stop: new AbortController(), position: after };
    this.#open.set(thread, entry);
    try {
      for await (const event of rondo.threadEvents(thread, after, entry.stop.signal)) {
        if (entry.stop.signal.aborted) return;
        this.reader.frame({ thread, seq: event.seq, previous: entry.position, event });
        entry.position = event.seq;
      }
    } catch {
      if (!entry.stop.signal.aborted) this.reader.link('refused');
    }
  }

  nudge(): void {
    const all = new Map([...this.#open].map(([thread, { position }]) => [thread, position]));
    this.close();
    this.follow(all);
  }

  close(): void {
    for (const { stop } of this.#open.values()) stop.abort();
    this.#open.clear();
  }
}

/** The user channel: notices, and the events of the followed threads, over one connection. */
export class UserSource implements FeedSource {
  readonly #stop = new AbortController();
  /** The last event of each thread that was told. */
  readonly #told = new Map<string, number>();
  readonly #gone = new Set<string>();
  #channel: UserChannel | null = null;

  constructor(readonly reader: SourceReader) {
    tellLink = (state) => reader.link(state);
  }

  follow(wanted: Map<string, number>): void {
    const threads = new Map([...wanted].filter(([thread]) => !this.#gone.has(thread)));
    if (!this.#channel) {
      this.#channel = rondo.events({ follow: Object.fromEntries(threads), signal: this.#stop.signal });
      for (const [thread, after] of threads) this.#told.set(thread, after);
      void this.#read(this.#channel);
      return;
    }
    const { positions } = this.#channel;
    const dropped = [...positions.keys()].filter((thread) => !threads.has(thread));
    const added = [...threads].filter(([thread, after]) => after < (positions.get(thread) ?? Infinity));
    // Each change makes a new connection, so a change is made only if there is one.
    for (const thread of dropped) positions.delete(thread);
    for (const [thread, after] of added) {
      positions.set(thread, after);
      this.#told.set(thread, after);
    }
    const any = added[0] ?? [...positions][0];
    if (added.length && any) this.#channel.follow(any[0], positions.get(any[0]) ?? any[1]);
  }

  async #read(channel: UserChannel): Promise<void> {
    try {
      for await (const event of channel as AsyncIterable<ChannelEvent>) {
        if (event.threadId === undefined) {
          this.reader.notice({ type: event.type, data: event.data as unknown as Record<string, unknown> });
          continue;
        }
        const { threadId: thread, seq } = event;
        const previous = this.#told.get(thread) ?? 0;
        this.#told.set(thread, seq);
        this.reader.frame({ thread, seq, previous, event: event as RondoEvent });
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      if (error instanceof RondoError && error.status === 404) await this.#recover(new Map(channel.positions));
      else this.reader.link('refused');
    }
  }

  /** A followed thread that is gone is refused as a whole. Without one, the server has no user channel. */
  async #recover(positions: Map<string, number>): Promise<void> {
    const asked = [...positions.keys()].map(async (thread) => {
      const answer = await fetch(address(`v1/threads/${thread}`), { cache: 'no-store' }).catch(() => null);
      return answer?.status === 404 ? thread : null;
    });
    const gone = (await Promise.all(asked)).filter((thread) => thread !== null);
    if (this.#stop.signal.aborted) return;
    if (gone.length === 0) return this.reader.missing();
    for (const thread of gone) {
      this.#gone.add(thread);
      positions.delete(thread);
    }
    this.#channel = null;
    this.follow(positions);
  }

  nudge(): void {
    const first = this.#channel && [...this.#channel.positions][0];
    if (first) this.#channel?.follow(first[0], first[1]);
  }

  close(): void {
    this.#stop.abort();
  }
}
