// One connection for all tabs of this browser. The tab that holds a lock reads the events and tells them to the others.
// When it closes or crashes, the lock passes on, and the next tab goes on where each tab is.

import { root } from './api.ts';
import { type FeedSource, type Frame, type LinkState, type NoticeFrame, type SourceReader, ThreadSource, UserSource } from './source.ts';

type Word =
  | { is: 'want'; tab: string; follows: [string, number][] }
  | { is: 'alive'; tab: string }
  | { is: 'leader' }
  | { is: 'gone'; tab: string }
  | { is: 'nudge' }
  | { is: 'frame'; frame: Frame }
  | { is: 'notice'; notice: NoticeFrame }
  | { is: 'link'; link: LinkState }
  | { is: 'signed-out' };

export interface FollowedThread {
  /** The last event that the tab has. */
  position: number;
  take(frame: Frame): void;
}

/** Tabs that say nothing for this long are forgotten by the leader. In milliseconds. */
const TAB_LIFE_MS = 90_000;
/** Threads that the server follows on one connection. */
const MAX_FOLLOWED = 20;
const NAME = `rondo ${root.pathname}`;

class Hub {
  readonly #tab = Math.random().toString(36).slice(2);
  readonly #follows = new Map<string, FollowedThread>();
  readonly #wants = new Map<string, { follows: Map<string, number>; at: number }>();
  readonly #notices = new Set<(notice: NoticeFrame) => void>();
  readonly #links = new Set<(link: LinkState) => void>();
  #channel: BroadcastChannel | null = null;
  #source: FeedSource | null = null;
  #userChannel = true;
  #planned: ReturnType<typeof setTimeout> | undefined;
  #link: LinkState = 'connecting';
  #signedOut: () => void = () => {};
  #started = false;

  start(onSignedOut: () => void): void {
    if (this.#started) return;
    this.#started = true;
    this.#signedOut = onSignedOut;
    if ('locks' in navigator && 'BroadcastChannel' in globalThis) {
      this.#channel = new BroadcastChannel(NAME);
      this.#channel.onmessage = ({ data }) => this.#hear(data as Word);
      void navigator.locks.request(NAME, () => this.#lead());
    } else void this.#lead();
    this.#want();
    setInterval(() => this.#say({ is: 'alive', tab: this.#tab }), TAB_LIFE_MS / 3);
    addEventListener('pagehide', () => this.#say({ is: 'gone', tab: this.#tab }));
    addEventListener('pageshow', (event) => event.persisted && this.#want());
    addEventListener('online', () => this.nudge());
    document.addEventListener('visibilitychange', () => !document.hidden && this.nudge());
  }

  follow(thread: string, followed: FollowedThread): () => void {
    this.#follows.set(thread, followed);
    this.#want();
    return () => {
      if (this.#follows.get(thread) !== followed) return;
      this.#follows.delete(thread);
      this.#want();
    };
  }

  onNotice(take: (notice: NoticeFrame) => void): () => void {
    this.#notices.add(take);
    return () => this.#notices.delete(take);
  }

  onLink(take: (link: LinkState) => void): () => void {
    this.#links.add(take);
    take(this.#link);
    return () => this.#links.delete(take);
  }

  nudge(): void {
    this.#source?.nudge();
    this.#say({ is: 'nudge' });
  }

  tellSignedOut(): void {
    this.#say({ is: 'signed-out' });
  }

  /** Holds the lock for the life of the page. */
  #lead(): Promise<never> {
    this.#open();
    this.#say({ is: 'leader' });
    this.#want();
    return new Promise(() => {});
  }

  #open(): void {
    const tell = (word: Word): void => {
      this.#say(word);
      this.#hear(word);
    };
    const reader: SourceReader = {
      frame: (frame) => tell({ is: 'frame', frame }),
      notice: (notice) => tell({ is: 'notice', notice }),
      link: (link) => tell({ is: 'link', link }),
      missing: () => {
        this.#userChannel = false;
        this.#source?.close();
        this.#open();
        this.#plan();
      },
    };
    this.#source = this.#userChannel ? new UserSource(reader) : new ThreadSource(reader);
  }

  /** Tells the leader which threads and events this tab follows. */
  #want(): void {
    const follows = [...this.#follows].map(([thread, { position }]) => [thread, position] as [string, number]);
    const word: Word = { is: 'want', tab: this.#tab, follows };
    this.#say(word);
    this.#hear(word);
  }

  #say(word: Word): void {
    this.#channel?.postMessage(word);
  }

  #hear(word: Word): void {
    switch (word.is) {
      case 'want':
        this.#wants.set(word.tab, { follows: new Map(word.follows), at: Date.now() });
        this.#plan();
        return;
      case 'alive': {
        const known = this.#wants.get(word.tab);
        if (known) known.at = Date.now();
        return;
      }
      case 'gone':
        this.#wants.delete(word.tab);
        this.#plan();
        return;
      case 'leader':
        this.#want();
        return;
      case 'nudge':
        this.#source?.nudge();
        return;
      case 'frame':
        this.#take(word.frame);
        return;
      case 'notice':
        for (const take of this.#notices) take(word.notice);
        return;
      case 'link':
        this.#link = word.link;
        for (const take of this.#links) take(word.link);
        return;
      case 'signed-out':
        this.#signedOut();
    }
  }

  #take(frame: Frame): void {
    const followed = this.#follows.get(frame.thread);
    if (!followed || frame.seq <= followed.position) return;
    if (frame.previous > followed.position) {
      // Something between was told before this tab listened.
      this.#want();
      return;
    }
    followed.position = frame.seq;
    followed.take(frame);
  }

  /** Follows what all tabs want, soon: several of them often change at once. */
  #plan(): void {
    if (!this.#source) return;
    clearTimeout(this.#planned);
    this.#planned = setTimeout(() => {
      const all = new Map<string, number>();
      for (const [tab, { follows, at }] of this.#wants) {
        if (tab !== this.#tab && Date.now() - at > TAB_LIFE_MS) {
          this.#wants.delete(tab);
          continue;
        }
        for (const [thread, after] of follows) all.set(thread, Math.min(after, all.get(thread) ?? after));
      }
      this.#source?.follow(new Map([...all].slice(-MAX_FOLLOWED)));
    }, 20);
  }
}

export const hub = new Hub();
