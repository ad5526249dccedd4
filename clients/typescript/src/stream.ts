import { RondoError } from "./error.js";
import { type Http, type Link, jitter, linked, pause } from "./http.js";
import { type Frame, SseDecoder } from "./sse.js";

/** Milliseconds of silence after which a connection counts as lost. The server breaks the silence every 15 seconds. */
const SILENCE_MS = 45_000;
/** Milliseconds after which a connection counts as a good one, even if nothing happened on it. */
const STEADY_MS = 10_000;
/** How often in a row a stream may fail to connect. */
const RETRIES = 10;

/** The stream that is read over one connection after another. */
export interface Feed<T> {
  /** Connects, to read after the last event that was read. Nothing means that there is no more. */
  open(signal: AbortSignal): Promise<Response | undefined>;
  /** Understands a frame. Nothing means that it was seen before, or that it is not for the reader. */
  read(frame: Frame): T | undefined;
  isLast?(event: T): boolean;
}

/**
 * Reads a feed to its end. A lost connection is made again, after a pause that grows and has a random length. A refusal
 * (4xx) ends it with an error, but for 429: the server may not know yet that the last connection is gone.
 */
export async function* follow<T>(http: Http, feed: Feed<T>, outer?: AbortSignal): AsyncGenerator<T, void, undefined> {
  const retries = http.options.retries ?? RETRIES;
  let asked = 0; // milliseconds
  for (let failures = 0; ; failures++) {
    const link = linked(outer);
    let opened = Infinity;
    let after = 0; // seconds
    let lost: unknown;
    try {
      const response = await feed.open(link.signal);
      if (!response?.body) return;
      opened = Date.now();
      for await (const frame of frames(response.body, link)) {
        if (frame.retry !== undefined) {
          asked = frame.retry;
          continue;
        }
        if (frame.event === "access:ended") break; // the next attempt authenticates again, or is refused
        const event = feed.read(frame);
        if (event === undefined) continue;
        failures = 0;
        yield event;
        if (feed.isLast?.(event)) return;
      }
    } catch (error) {
      outer?.throwIfAborted();
      if (!(error instanceof RondoError) || !(error.isPassing || error.status === 429)) throw error;
      after = error.retryAfter ?? 0;
      lost = error;
    } finally {
      link.abort();
      link.release();
    }
    if (Date.now() - opened > STEADY_MS) failures = 0;
    if (failures >= retries) {
      const detail = `the connection was lost ${failures + 1} times in a row`;
      throw lost instanceof RondoError && lost.status ? lost : new RondoError("connection_failed", 0, detail, { cause: lost });
    }
    await pause(Math.max(asked, after * 1000) + jitter(failures), outer);
  }
}

async function* frames(body: ReadableStream<Uint8Array>, link: Link): AsyncGenerator<Frame> {
  const decoder = new SseDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const timer = setTimeout(() => link.abort(), SILENCE_MS);
      let piece;
      try {
        piece = await reader.read();
      } catch (cause) {
        throw new RondoError("connection_failed", 0, "the connection was lost", { cause });
      } finally {
        clearTimeout(timer);
      }
      if (piece.done) return;
      yield* decoder.feed(piece.value);
    }
  } finally {
    reader.cancel().catch(() => {}); // it has no reader any more
  }
}
