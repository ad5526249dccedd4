// Requests to the server of this page. The browser sends the session's cookie; no script holds a key.

/** The folder of this page, which is also the root of the API, behind a proxy's path or not. */
export const root = new URL('.', document.baseURI);

export interface Page<T> {
  data: T[];
  next: string | null;
}

/** A refused request. `network` is the code of a request without any answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly retryAfter: number | null = null,
    readonly fields: { field: string; message: string }[] = [],
  ) {
    super(detail);
  }
}

export interface CallOptions {
  query?: Record<string, string | number | boolean | null | undefined>;
  headers?: Record<string, string>;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is. */
  raw?: BodyInit;
  signal?: AbortSignal;
  /** Makes a repeated request harmless. */
  key?: string;
}

export function address(path: string, query: CallOptions['query'] = {}): string {
  const url = new URL(path.replace(/^\//, ''), root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, String(value));
  }
  return url.href;
}

export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Called when the server no longer knows who asks. */
let onSignedOut = (): void => {};
export function whenSignedOut(act: () => void): void {
  onSignedOut = act;
}

export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
  let body: BodyInit | undefined = options.raw;
  if (options.body !== undefined) {
    headers['content-type'] = 'application/json';
    body = JSON.stringify(options.body);
  }
  if (options.key) headers['idempotency-key'] = options.key;
  let response: Response;
  try {
    response = await fetch(address(path, options.query), { method, headers, body, signal: options.signal, cache: 'no-store' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'network', 'The server does not answer. Is it running?');
  }
  if (response.ok) return response;
  throw await problem(response);
}

async function problem(response: Response): Promise<ApiError> {
  const body = await response.json().catch(() => ({}));
  const retry = Number(response.headers.get('retry-after'));
  const detail = body.detail ?? body.title ?? `The server answered with status ${response.status}.`;
  const error = new ApiError(response.status, body.code ?? 'unknown', detail, Number.isFinite(retry) && retry > 0 ? retry : null, body.errors ?? []);
  if (response.status === 401 && !response.url.endsWith('/v1/session')) onSignedOut();
  return error;
}

async function json<T>(method: string, path: string, options?: CallOptions): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

export const get = <T>(path: string, query?: CallOptions['query'], signal?: AbortSignal): Promise<T> => json<T>('GET', path, { query, signal });
export const post = <T>(path: string, body?: unknown, options?: CallOptions): Promise<T> => json<T>('POST', path, { body, key: freshKey(), ...options });
export const patch = <T>(path: string, body: unknown, options?: CallOptions): Promise<T> => json<T>('PATCH', path, { body, key: freshKey(), ...options });
export const put = <T>(path: string, body: unknown, options?: CallOptions): Promise<T> => json<T>('PUT', path, { body, ...options });
export const remove = (path: string, query?: CallOptions['query']): Promise<void> => json<void>('DELETE', path, { query, key: freshKey() });

/** An upload that tells how far it is: `fetch` cannot. */
export function upload<T>(path: string, file: File, onProgress: (share: number) => void, signal?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', address(path, { name: file.name }));
    request.responseType = 'json';
    request.setRequestHeader('content-type', file.type || 'application/octet-stream');
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      const body = request.response ?? {};
      if (request.status < 300) resolve(body as T);
      else reject(new ApiError(request.status, body.code ?? 'unknown', body.detail ?? 'The file was refused.'));
    };
    request.onerror = () => reject(new ApiError(0, 'network', 'The server does not answer. Is it running?'));
    request.onabort = () => reject(new DOMException('stopped', 'AbortError'));
    signal?.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

export function explain(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
