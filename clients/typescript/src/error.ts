/** Why a request, a stream or a run did not work. `code` is stable; see the table of errors in the server's API. */
export class RondoError extends Error {
  override name = "RondoError";

  constructor(
    /** A stable word, such as `thread_busy`. The client's own are `connection_failed` and `event_too_large`. */
    readonly code: string,
    /** The HTTP status; 0 if there was no answer, or if a run failed after it was accepted. */
    readonly status: number,
    /** A sentence for people. */
    readonly detail: string,
    private readonly more: {
      /** Seconds to wait before another try, if the server says so. */
      retryAfter?: number;
      /** Names the request in the server's log. */
      requestId?: string;
      /** The fields that are wrong. */
      errors?: { field: string; message: string }[];
      cause?: unknown;
    } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause });
  }

  get retryAfter(): number | undefined {
    return this.more.retryAfter;
  }

  get requestId(): string | undefined {
    return this.more.requestId;
  }

  get errors(): { field: string; message: string }[] {
    return this.more.errors ?? [];
  }

  /** Whether the same request may work a little later. */
  get isPassing(): boolean {
    return this.code === "connection_failed" || (this.status >= 500 && this.status !== 501 && this.status !== 507);
  }

  /** Reads a problem document, or any other answer of a proxy. */
  static async of(response: Response): Promise<RondoError> {
    const { status, headers } = response;
    let problem: Record<string, unknown> = {};
    try {
      problem = ((await response.json()) as Record<string, unknown>) ?? {};
    } catch {
      // A proxy answers with a page of its own.
    }
    const detail = String(problem["detail"] ?? problem["title"] ?? `the server answered with status ${status}`);
    return new RondoError(String(problem["code"] ?? `http_${status}`), status, detail, {
      ...defined("retryAfter", seconds(headers.get("retry-after"))),
      ...defined("requestId", (problem["requestId"] as string) ?? headers.get("x-request-id")),
      ...defined("errors", problem["errors"] as { field: string; message: string }[] | undefined),
    });
  }
}

/** A field that is there only if it has a value. */
export function defined<K extends string, V>(name: K, value: V | null | undefined): { [key in K]?: V } {
  return (value == null ? {} : { [name]: value }) as { [key in K]?: V };
}

/** `Retry-After` is a number of seconds or a date. */
function seconds(header: string | null): number | undefined {
  if (!header) return undefined;
  const wait = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined;
}
