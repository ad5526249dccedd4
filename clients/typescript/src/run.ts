import { RondoError } from "./error.js";
import type { RondoEvent } from "./events.js";
import { type Conversation, type ShownMessage, empty, fold } from "./fold.js";
import { type Http, fill, fresh } from "./http.js";
import type * as api from "./schema.js";
import type { Frame } from "./sse.js";
import { follow } from "./stream.js";
import { type CallDesk, CallRunner, type ClientTools } from "./tools.js";

/** How a run ended, with everything that it has said and done. */
export interface RunOutcome extends ShownMessage {
  runId: string;
  threadId: string;
  status: api.RunStatus;
}

/** Which run is read: a new one, or one that there is. */
export type RunOrigin = { app: string; body: object; idempotencyKey?: string } | { runId: string; after: number };

/**
 * A run. It continues when the connection is lost, and even without a reader. Each loop over it begins with its first
 * event (or with the one after `after`), and ends with its last.
 */
export class RondoRun implements AsyncIterable<RondoEvent> {
  /** Known when `started` is. */
  id: string | undefined;
  /** Known when `started` is; in a run that is resumed, with its first event. */
  threadId: string | undefined;
  /** The view that the events up to now make. */
  state: Conversation = empty;
  /** The server has stored the message. */
  readonly started: Promise<{ runId: string; threadId?: string }>;
  readonly #http: Http;
  readonly #after: number;
  readonly #calls: CallRunner | undefined;
  readonly #signal: AbortSignal | undefined;
  /** The answer to the first request, for the first loop. */
  #first: Response | undefined;

  constructor(http: Http, origin: RunOrigin, desk: CallDesk, options: { tools?: ClientTools | undefined; signal?: AbortSignal | undefined }) {
    this.#http = http;
    this.#signal = options.signal;
    this.#calls = options.tools && new CallRunner(desk, () => options.tools ?? {}, options.signal);
    if ("runId" in origin) {
      this.id = origin.runId;
      this.#after = origin.after;
      this.started = Promise.resolve({ runId: origin.runId });
    } else {
      this.#after = 0;
      this.started = this.#start(origin);
      this.started.catch(() => {}); // the reader of the run gets the error
    }
  }

  async #start({ app, body, idempotencyKey = fresh() }: { app: string; body: object; idempotencyKey?: string }) {
    const sent = { body, idempotencyKey, signal: this.#signal, headers: { accept: "text/event-stream" } };
    const response = await this.#http.send("POST", fill("/v1/apps/{app}/runs", { app }), sent);
    this.#first = response;
    const runId = (this.id = response.headers.get("x-run-id") ?? "");
    const threadId = (this.threadId = response.headers.get("x-thread-id") ?? "");
    return { runId, threadId };
  }

  [Symbol.asyncIterator](): AsyncGenerator<RondoEvent, void, undefined> {
    return this.#read(this.#after);
  }

  async *#read(after: number): AsyncGenerator<RondoEvent, void, undefined> {
    const { runId } = await this.started;
    let last = after;
    const feed = {
      open: async (signal: AbortSignal) => {
        const first = this.#first;
        this.#first = undefined;
        if (first && last === 0) return first;
        const headers: Record<string, string> = { accept: "text/event-stream" };
        if (last) headers["last-event-id"] = String(last);
        const response = await this.#http.attempt("GET", `/v1/runs/${runId}/events`, { headers, signal });
        return response.status === 204 ? undefined : response;
      },
      read: (frame: Frame) => {
        const event = parsed(frame);
        if (!event || (event.seq <= last && event.type !== "snapshot")) return undefined;
        last = event.seq;
        this.#fold(event);
        return event;
      },
      isLast: ({ type, data }: RondoEvent) =>
        (type === "run:end" && data.runId === runId) || (type === "snapshot" && isOver(data.status)),
    };
    yield* follow(this.#http, feed, this.#signal);
  }

  #fold(event: RondoEvent) {
    // A loop may read again what another one has folded.
    this.state = fold(this.state, event);
    this.threadId ??= this.state.threadId;
    if (event.type === "call:open") this.#calls?.begin(event.data);
  }

  /** Stops reading the first answer. The run goes on. */
  async detach(): Promise<void> {
    await this.started;
    const first = this.#first;
    this.#first = undefined;
    await first?.body?.cancel();
  }

  /** Waits for the end, and says how it was. A run that failed is an outcome, too. */
  async result(): Promise<RunOutcome> {
    if (!this.#outcome()) {
      const after = this.state.seq || this.#after;
      for await (const _ of this.#read(after));
    }
    const outcome = this.#outcome();
    if (outcome) return outcome;
    // Everything was seen before `after`.
    for await (const _ of this.#read(0));
    return this.#outcome() ?? Promise.reject(new RondoError("connection_failed", 0, "the run has no end yet"));
  }

  /** Waits for the answer. A run that failed is an error. */
  async text(): Promise<string> {
    const { status, text, error } = await this.result();
    if (status === "failed") throw new RondoError(error?.code ?? "failed", 0, error?.message ?? "the run has failed");
    return text;
  }

  #outcome(): RunOutcome | undefined {
    const message = this.state.messages.find(({ key }) => key === this.id);
    if (!message || !isOver(message.status)) return undefined;
    return { ...message, runId: this.id ?? "", threadId: this.threadId ?? "" } as RunOutcome;
  }

  /** Ends the run as `cancelled`. Its text so far is kept. */
  async cancel(): Promise<api.RunView> {
    const { runId } = await this.started;
    return this.#http.json("POST", `/v1/runs/${runId}/cancel`);
  }
}

export const isOver = (status: string | undefined): boolean =>
  status !== undefined && !["queued", "running", "waiting"].includes(status);

/** A frame of a run or of a thread's channel as an event. */
export function parsed({ event, id, data }: Frame): RondoEvent | undefined {
  return event && id !== undefined ? ({ type: event, seq: Number(id), data: JSON.parse(data) } as RondoEvent) : undefined;
}
