import { RondoError } from "./error.js";

/** Milliseconds that an answer may take to begin. */
const ANSWER_MS = 120_000;
/** Milliseconds of the first pause before another try, and of the longest; the pauses between them double. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** Tries of a request that is not a stream. */
const TRIES = 5;
/** The longest `Retry-After`, in seconds, that a request waits by itself. */
const LONGEST_RETRY_AFTER = 30;

export interface RondoOptions {
  /** Where the server is, such as `https://example.org/rondo`. The default is the origin of the page. */
  baseUrl?: string;
  /** An API key. It never belongs in a web page. */
  key?: string;
  /** Gives a JWT of the signed-in user. It is asked before every request, so it should keep the token while it is valid. */
  token?: () => string | Promise<string>;
  /** The user for whom an acting key speaks. */
  user?: string;
  /** Headers of your own, for every request. */
  headers?: Record<string, string>;
  /** `include` sends a session cookie to a server of another origin. */
  credentials?: RequestCredentials;
  fetch?: typeof fetch;
  /** How often in a row a stream may fail to connect before it gives up. The default is 10. */
  retries?: number;
}

export interface Sent {
  query?: object | undefined;
  /** An object is sent as JSON; a Blob, a string or bytes are sent as they are. */
  body?: unknown;
  headers?: Record<string, string> | undefined;
  signal?: AbortSignal | undefined;
  /** The default is a new one for every request that changes something. */
  idempotencyKey?: string | undefined;
}

/** Makes requests: one attempt, or as many as it takes. */
export class Http {
  constructor(readonly options: RondoOptions) {}

  /** One attempt. The answer is a good one. */
  async attempt(method: string, path: string, sent: Sent): Promise<Response> {
    const { options } = this;
    const headers = new Headers(options.headers);
    for (const [name, value] of Object.entries(sent.headers ?? {})) headers.set(name, value);
    const token = options.key ?? (await options.token?.());
    if (token) headers.set("authorization", `Bearer ${token}`);
    if (options.user) headers.set("x-rondo-user", options.user);
    if (sent.idempotencyKey) headers.set("idempotency-key", sent.idempotencyKey);
    let body = sent.body as BodyInit | null | undefined;
    if (isPlain(body)) {
      headers.set("content-type", "application/json");
      body = JSON.stringify(body);
    }
    const init: RequestInit = { method, headers };
    if (body != null) init.body = body;
    if (options.credentials) init.credentials = options.credentials;
    const link = linked(sent.signal);
    init.signal = link.signal;
    const late = setTimeout(() => link.abort(), ANSWER_MS);
    const url = (options.baseUrl ?? "").replace(/\/+$/, "") + path + search(sent.query);
    let response;
    try {
      response = await (options.fetch ?? globalThis.fetch)(url, init);
    } catch (cause) {
      link.release();
      sent.signal?.throwIfAborted();
      throw new RondoError("connection_failed", 0, "the server cannot be reached", { cause });
    } finally {
      clearTimeout(late);
    }
    if (response.ok) return response;
    try {
      throw await RondoError.of(response);
    } finally {
      link.release();
    }
  }

  /** Sends a request until it is answered. A change carries one key for all attempts, so it happens once. */
  async send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const same = method === "GET" ? sent : { ...sent, idempotencyKey: sent.idempotencyKey ?? fresh() };
    for (let failures = 0; ; failures++) {
      try {
        return await this.attempt(method, path, same);
      } catch (error) {
        const wait = (error instanceof RondoError && error.retryAfter) || 0;
        const again = error instanceof RondoError && error.isPassing && wait <= LONGEST_RETRY_AFTER;
        if (!again || failures + 1 >= TRIES) throw error;
        await pause(wait * 1000 + jitter(failures), sent.signal);
      }
    }
  }

  /** Sends a request, and reads its answer to the end. */
  async read<T>(method: string, path: string, sent: Sent, read: (response: Response) => Promise<T>): Promise<T> {
    const link = linked(sent.signal);
    try {
      return await read(await this.send(method, path, { ...sent, signal: link.signal }));
    } finally {
      link.release();
    }
  }

  /** Sends a request. The answer is JSON, nothing, or a response whose body is something else. */
  json<T>(method: string, path: string, sent: Sent = {}): Promise<T> {
    return this.read(method, path, sent, async (response) => {
      if (response.status === 204) return undefined as T;
      const isJson = response.headers.get("content-type")?.includes("json");
      return (isJson ? await response.json() : response) as T;
    });
  }
}

/** A key that no other request has. `crypto.randomUUID` is missing in pages without TLS. */
export function fresh(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A random pause, of which the longest doubles with every failure (exponential back-off with full jitter). */
export function jitter(failures: number): number {
  return Math.random() * Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

export interface Link {
  signal: AbortSignal;
  abort(reason?: unknown): void;
  /** Lets go of the outer signal, which may outlive many requests. */
  release(): void;
}

/** A signal of its own that also ends with the outer one. */
export function linked(outer?: AbortSignal): Link {
  const own = new AbortController();
  const end = () => own.abort(outer?.reason);
  if (outer?.aborted) end();
  outer?.addEventListener("abort", end, { once: true });
  return {
    signal: own.signal,
    abort: (reason) => own.abort(reason),
    release: () => outer?.removeEventListener("abort", end),
  };
}

/** Fills `{names}` into a path. The rest of a path may have slashes. */
export function fill(path: string, names: object): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String((names as Record<string, unknown>)[name]);
    return name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
}

function search(query: object | undefined): string {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value != null);
  return entries.length ? `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}` : "";
}

/** Whether a body is sent as JSON. */
function isPlain(body: unknown): boolean {
  if (body == null || typeof body !== "object") return false;
  const raw = [Blob, FormData, ArrayBuffer, URLSearchParams].some((type) => body instanceof type);
  return !raw && !ArrayBuffer.isView(body);
}
