import { type ChannelOptions, UserChannel, threadEvents } from "./channel.js";
import { RondoError } from "./error.js";
import type { RondoEvent } from "./events.js";
import { Http, type RondoOptions, type Sent, fill } from "./http.js";
import { RondoRun } from "./run.js";
import type * as api from "./schema.js";
import { type CallAnswer, type ClientTools, declared } from "./tools.js";

type Routes = api.Routes;
/** A request of the API, such as `GET /v1/models`. */
export type Route = keyof Routes;
type Field<R extends Route, K extends string> = K extends keyof Routes[R] ? Exclude<Routes[R][K], undefined> : never;
type Needed<R extends Route> = Omit<Routes[R], "answer">;
/** The parameters of a request: the names in its path, its query and its body. */
export type Arguments<R extends Route> = Partial<Pick<Needed<R>, keyof Needed<R> & "query">> &
  Omit<Needed<R>, "query"> & { signal?: AbortSignal; idempotencyKey?: string; headers?: Record<string, string> };
export type Answer<R extends Route> = Routes[R]["answer"];
type Query<R extends Route> = Field<R, "query">;
type Body<R extends Route> = Field<R, "body">;
type Entry<R extends Route> = Answer<R> extends { data: (infer T)[] } ? T : never;

/** A list. To await it gives its first page; a loop over it reads page after page. */
export class Listing<T, P = { data: T[]; next?: string | null }> implements AsyncIterable<T>, PromiseLike<P> {
  constructor(readonly page: (cursor?: string) => Promise<P>) {}

  then<A = P, B = never>(ok?: ((page: P) => A | PromiseLike<A>) | null, bad?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    return this.page().then(ok, bad);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let cursor: string | undefined; ; ) {
      const { data, next } = (await this.page(cursor)) as { data: T[]; next?: string | null };
      yield* data;
      if (!next) return;
      cursor = next;
    }
  }
}

/** A message to an app, and how it is to be answered. */
export type RunRequest = Omit<api.NewRun, "tools" | "stream"> & {
  /** Tools that this client runs. Their calls are answered by themselves while the run is read. */
  tools?: ClientTools;
  /** Ends the request and the reading, not the run. */
  signal?: AbortSignal;
  /** The default is a new one, so that a repeated request is never a second message. */
  idempotencyKey?: string;
};

/** A client of a Rondo server. It has no state but its options. */
export class Rondo {
  readonly #http: Http;

  constructor(options: RondoOptions = {}) {
    this.#http = new Http(options);
  }

  /** Any request of the API, with the types of the server's OpenAPI document. */
  request<R extends Route>(route: R, args?: Arguments<R>): Promise<Answer<R>> {
    const [method = "", path = ""] = route.split(" ");
    const { path: names = {}, ...sent } = (args ?? {}) as Sent & { path?: object };
    return this.#http.json(method, fill(path, names), sent);
  }

  /** Any list of the API. */
  list<R extends Route>(route: R, args?: Arguments<R>): Listing<Entry<R>, Answer<R>> {
    return new Listing((cursor) => {
      const query = { ...(args as { query?: object } | undefined)?.query, ...(cursor ? { cursor } : {}) };
      return this.request(route, { ...args, query } as unknown as Arguments<R>);
    });
  }

  /** A file, as the server sends it. */
  download(path: string, query?: object, signal?: AbortSignal): Promise<Blob> {
    return this.#http.read("GET", path, { query, signal }, (response) => response.blob());
  }

  /** @internal */
  start(app: string, { tools, signal, idempotencyKey, ...body }: RunRequest): RondoRun {
    const origin = { app, body: { ...body, ...declared(tools) }, ...(idempotencyKey ? { idempotencyKey } : {}) };
    return new RondoRun(this.#http, origin, this, { tools, signal });
  }

  app(id: string): RondoApp {
    return new RondoApp(this, id);
  }

  thread(id: string): RondoThread {
    return new RondoThread(this, id);
  }

  /** Reads a run that there is: from its first event, or after one that was read. */
  resume(runId: string, after = 0, options: { tools?: ClientTools; signal?: AbortSignal } = {}): RondoRun {
    return new RondoRun(this.#http, { runId, after }, this, options);
  }

  cancel(run: string): Promise<api.RunView> {
    return this.request("POST /v1/runs/{run}/cancel", { path: { run } });
  }

  /** The channel of the user: what is new in any of their threads. */
  events(options: ChannelOptions = {}): UserChannel {
    return new UserChannel(this.#http, options);
  }

  /** The events of a thread after one of them, without an end. */
  threadEvents(threadId: string, after: number, signal?: AbortSignal): AsyncGenerator<RondoEvent, void, undefined> {
    return threadEvents(this.#http, threadId, after, signal);
  }

  apps() {
    return this.list("GET /v1/apps");
  }

  models() {
    return this.list("GET /v1/models");
  }

  /** The threads of all apps, the most recently used first. */
  threads(query?: Query<"GET /v1/threads">) {
    return this.list("GET /v1/threads", { query } as Arguments<"GET /v1/threads">);
  }

  /** Approves a call. */
  confirm(proposal: string) {
    return this.request("POST /v1/proposals/{proposal}/confirm", { path: { proposal } });
  }

  reject(proposal: string) {
    return this.request("POST /v1/proposals/{proposal}/reject", { path: { proposal } });
  }

  /** Answers a call that waits for the client. Nothing comes back if it was answered already, or has ended. */
  answer(call: string, answer: CallAnswer, signal?: AbortSignal) {
    return this.#http.json<api.ClientCallView>("POST", fill("/v1/calls/{call}/result", { call }), { body: answer, signal }).catch((error) => {
      if (error instanceof RondoError && error.status === 409) return undefined;
      throw error;
    });
  }

  /** A call for the client. */
  call(call: string, signal?: AbortSignal) {
    return this.#http.json<api.ClientCallView>("GET", fill("/v1/calls/{call}", { call }), { signal });
  }

  /** Undoes an action. */
  undo(action: string) {
    return this.request("POST /v1/actions/{action}/undo", { path: { action } });
  }

  /** The changes that the undo of an action would make. */
  previewUndo(action: string) {
    return this.request("GET /v1/actions/{action}/undo", { path: { action } });
  }

  undoRun(run: string) {
    return this.request("POST /v1/runs/{run}/undo", { path: { run } });
  }

  previewUndoRun(run: string) {
    return this.request("GET /v1/runs/{run}/undo", { path: { run } });
  }

  image(image: string, signal?: AbortSignal): Promise<Blob> {
    return this.download(fill("/v1/images/{image}", { image }), undefined, signal);
  }

  deleteImage(image: string) {
    return this.request("DELETE /v1/images/{image}", { path: { image } });
  }

  deleteDocument(document: string) {
    return this.request("DELETE /v1/documents/{document}", { path: { document } });
  }

  changeMemory(memory: string, body: Body<"PATCH /v1/memories/{memory}">) {
    return this.request("PATCH /v1/memories/{memory}", { path: { memory }, body });
  }

  /** Forgets a memory; `purge` removes it from the disk for good. */
  forget(memory: string, query?: Query<"DELETE /v1/memories/{memory}">) {
    return this.request("DELETE /v1/memories/{memory}", { path: { memory }, ...(query ? { query } : {}) } as Arguments<"DELETE /v1/memories/{memory}">);
  }

  restoreMemory(memory: string) {
    return this.request("POST /v1/memories/{memory}/restore", { path: { memory } });
  }
}

/** The things of one user in one app. */
export class RondoApp {
  readonly #rondo: Rondo;
  readonly #path: { app: string };

  constructor(rondo: Rondo, readonly id: string) {
    this.#rondo = rondo;
    this.#path = { app: id };
  }

  /** Sends a message. The request is made at once; read the run to see its answer. */
  run(request: RunRequest): RondoRun {
    return this.#rondo.start(this.id, request);
  }

  #list<R extends Route>(route: R, query?: object): Listing<Entry<R>, Answer<R>> {
    return this.#rondo.list(route, { path: this.#path, query } as unknown as Arguments<R>);
  }

  threads(query?: Query<"GET /v1/apps/{app}/threads">) {
    return this.#list("GET /v1/apps/{app}/threads", query);
  }

  createThread(body: Body<"POST /v1/apps/{app}/threads"> = {}) {
    return this.#rondo.request("POST /v1/apps/{app}/threads", { path: this.#path, body });
  }

  /** Searches the titles and the messages of threads. */
  searchThreads(q: string, query?: { limit?: number }) {
    return this.#list("GET /v1/apps/{app}/threads/search", { q, ...query });
  }

  /** Searches messages. */
  search(q: string, query?: { limit?: number; from?: string; to?: string }) {
    return this.#list("GET /v1/apps/{app}/search", { q, ...query });
  }

  memories(query?: Query<"GET /v1/apps/{app}/memories">) {
    return this.#list("GET /v1/apps/{app}/memories", query);
  }

  remember(body: Body<"POST /v1/apps/{app}/memories">) {
    return this.#rondo.request("POST /v1/apps/{app}/memories", { path: this.#path, body });
  }

  searchMemories(body: Body<"POST /v1/apps/{app}/memories/search">) {
    return this.#rondo.request("POST /v1/apps/{app}/memories/search", { path: this.#path, body });
  }

  proposals(query?: Query<"GET /v1/apps/{app}/proposals">) {
    return this.#list("GET /v1/apps/{app}/proposals", query);
  }

  /** Calls for the client. */
  calls(query?: Query<"GET /v1/apps/{app}/calls">) {
    return this.#list("GET /v1/apps/{app}/calls", query);
  }

  actions(query?: Query<"GET /v1/apps/{app}/actions">) {
    return this.#list("GET /v1/apps/{app}/actions", query);
  }

  images(query?: Query<"GET /v1/apps/{app}/images">) {
    return this.#list("GET /v1/apps/{app}/images", query);
  }

  documents(query?: Query<"GET /v1/apps/{app}/documents">) {
    return this.#list("GET /v1/apps/{app}/documents", query);
  }

  knowledge() {
    return this.#list("GET /v1/apps/{app}/knowledge");
  }

  /** Uploads an image, for a part of a message. The name of a File is kept. */
  uploadImage(image: Blob, options: UploadOptions = {}) {
    return this.#rondo.request("POST /v1/apps/{app}/images", this.#upload(image, options) as Arguments<"POST /v1/apps/{app}/images">);
  }

  /** Uploads a document, to answer from. The name of a File is kept. */
  uploadDocument(document: Blob, options: UploadOptions = {}) {
    return this.#rondo.request("POST /v1/apps/{app}/documents", this.#upload(document, options) as Arguments<"POST /v1/apps/{app}/documents">);
  }

  #upload(body: Blob, { name = (body as { name?: string }).name, signal }: UploadOptions) {
    return { path: this.#path, query: { name }, body, signal };
  }

  records(type: string): RondoRecords {
    return new RondoRecords(this.#rondo, this.id, type);
  }

  get files(): RondoFiles {
    return new RondoFiles(this.#rondo, this.id);
  }
}

export interface UploadOptions {
  name?: string;
  signal?: AbortSignal;
}

/** One conversation. */
export class RondoThread {
  readonly #rondo: Rondo;
  readonly #path: { thread: string };

  constructor(rondo: Rondo, readonly id: string) {
    this.#rondo = rondo;
    this.#path = { thread: id };
  }

  get() {
    return this.#rondo.request("GET /v1/threads/{thread}", { path: this.#path });
  }

  /** The messages of the shown branch, oldest first. */
  messages(query?: Query<"GET /v1/threads/{thread}/messages">) {
    return this.#list("GET /v1/threads/{thread}/messages", query);
  }

  /** The messages of all branches, oldest first. */
  tree(query?: Query<"GET /v1/threads/{thread}/tree">) {
    return this.#list("GET /v1/threads/{thread}/tree", query);
  }

  #list<R extends Route>(route: R, query?: object): Listing<Entry<R>, Answer<R>> {
    return this.#rondo.list(route, { path: this.#path, query } as unknown as Arguments<R>);
  }

  /** Shows the branch of this message. */
  setHead(messageId: string) {
    return this.#rondo.request("PUT /v1/threads/{thread}/head", { path: this.#path, body: { messageId } });
  }

  /** Changes the title, the persona, `pinned` or `archived`. */
  change(body: Body<"PATCH /v1/threads/{thread}">) {
    return this.#rondo.request("PATCH /v1/threads/{thread}", { path: this.#path, body });
  }

  delete() {
    return this.#rondo.request("DELETE /v1/threads/{thread}", { path: this.#path });
  }

  /** The whole thread as a file. */
  export(format: "markdown" | "json", signal?: AbortSignal): Promise<Blob> {
    return this.#rondo.download(fill("/v1/threads/{thread}/export", this.#path), { format }, signal);
  }

  /** The events of all runs of the thread and of the thread itself, after one of them. They have no end. */
  events(after: number, signal?: AbortSignal) {
    return this.#rondo.threadEvents(this.id, after, signal);
  }
}

/** The records of one type. */
export class RondoRecords {
  readonly #rondo: Rondo;
  readonly #path: { app: string; type: string };

  constructor(rondo: Rondo, app: string, type: string) {
    this.#rondo = rondo;
    this.#path = { app, type };
  }

  list(query?: Query<"GET /v1/apps/{app}/records/{type}"> & { [field: `field.${string}`]: string }) {
    return this.#rondo.list("GET /v1/apps/{app}/records/{type}", { path: this.#path, query } as Arguments<"GET /v1/apps/{app}/records/{type}">);
  }

  get(record: string) {
    return this.#rondo.request("GET /v1/apps/{app}/records/{type}/{record}", { path: { ...this.#path, record } });
  }

  create(data: object) {
    return this.#rondo.request("POST /v1/apps/{app}/records/{type}", { path: this.#path, body: data as never });
  }

  /** Replaces all data. With a version, it is refused if the record has another one. */
  replace(record: string, data: object, version?: number) {
    return this.#rondo.request("PUT /v1/apps/{app}/records/{type}/{record}", this.#write(record, data, version));
  }

  /** Replaces the fields that `data` names; null removes one. */
  change(record: string, data: object, version?: number) {
    return this.#rondo.request("PATCH /v1/apps/{app}/records/{type}/{record}", this.#write(record, data, version));
  }

  delete(record: string, version?: number) {
    return this.#rondo.request("DELETE /v1/apps/{app}/records/{type}/{record}", this.#write(record, undefined, version));
  }

  #write(record: string, body: object | undefined, version: number | undefined) {
    return { path: { ...this.#path, record }, body: body as never, query: { version } as never };
  }

  versions(record: string) {
    return this.#rondo.list("GET /v1/apps/{app}/records/{type}/{record}/versions", { path: { ...this.#path, record } });
  }
}

/** The Markdown files of a user in an app. */
export class RondoFiles {
  readonly #rondo: Rondo;
  readonly #app: string;

  constructor(rondo: Rondo, app: string) {
    this.#rondo = rondo;
    this.#app = app;
  }

  list() {
    return this.#rondo.list("GET /v1/apps/{app}/files", { path: { app: this.#app } });
  }

  /** A file with its content and its version. */
  get(path: string): Promise<api.FileView> {
    const args = { path: { app: this.#app, path }, headers: { accept: "application/json" } };
    return this.#rondo.request("GET /v1/apps/{app}/files/{path}", args) as Promise<api.FileView>;
  }

  /** Creates or replaces a file. With a version, it is refused if the file has another one. */
  put(path: string, content: string, version?: number) {
    const headers = { "content-type": "text/markdown; charset=utf-8" };
    const args = { path: { app: this.#app, path }, body: content as never, headers, query: { version } as never };
    return this.#rondo.request("PUT /v1/apps/{app}/files/{path}", args);
  }

  delete(path: string, version?: number) {
    return this.#rondo.request("DELETE /v1/apps/{app}/files/{path}", { path: { app: this.#app, path }, query: { version } as never });
  }

  versions(path: string) {
    return this.#rondo.list("GET /v1/apps/{app}/file-versions/{path}", { path: { app: this.#app, path } });
  }
}
