// Types of the API that the server's OpenAPI document does not describe yet.
import type { RunStatus, Source, ToolStatus, Usage } from "./schema.js";

declare module "./schema.js" {
  interface CallOpen {
    callId: string;
    name: string;
    input: unknown;
    expiresAt: string;
  }
  interface ThreadHead {
    headId: string;
  }
  interface ThreadChanged {
    pinned: boolean;
    archived: boolean;
  }
  interface MessagePart {
    type: "image" | "document";
    imageId?: string;
    documentId?: string;
    name?: string;
  }
  interface ClientCallView {
    id: string;
    name: string;
    input: unknown;
    status: "open" | "answered" | "expired" | "superseded" | "cancelled";
  }
  interface ImageView {
    id: string;
    width: number;
    height: number;
  }
  interface ThreadNotice {
    appId: string;
    threadId: string;
    change: "created" | "changed" | "deleted";
  }
  interface RunNotice {
    appId: string;
    threadId: string;
    runId: string;
    status: RunStatus;
  }
  interface ProposalNotice {
    appId: string;
    proposalId: string;
    status: string;
  }
  interface CallNotice {
    appId: string;
    callId: string;
    status: string;
  }
  interface MemoryNotice {
    appId: string;
    memoryIds: string[];
  }
  interface DocumentNotice {
    appId: string;
    documentId: string;
    status: string;
  }
  interface MessageUser {
    parts?: MessagePart[];
  }
  interface Message {
    parts?: MessagePart[];
    siblings?: { ids: string[]; index: number };
    reasoning?: string;
    sources?: Source[];
    usage?: Usage;
    durationMs?: number;
    status?: RunStatus;
  }
  interface ToolResultView {
    status?: ToolStatus;
    durationMs?: number;
  }
  interface ThreadView {
    pinned?: boolean;
    archived?: boolean;
  }
  interface ThreadChange {
    pinned?: boolean;
    archived?: boolean;
  }
  interface NewRun {
    parts?: object[];
    tools?: object[];
  }
  interface Routes {
    "GET /v1/threads": { query: Paging & { archived?: string; pinned?: boolean }; answer: Listed<ThreadView> };
    "GET /v1/actions/{action}/undo": { path: { action: string }; answer: { possible: boolean } };
    "GET /v1/runs/{run}/undo": { path: { run: string }; answer: { actions: object[] } };
    "DELETE /v1/images/{image}": { path: { image: string }; answer: void };
    "POST /v1/apps/{app}/images": { path: { app: string }; query: { name?: string }; body: Blob; answer: ImageView };
    "GET /v1/apps/{app}/images": { path: { app: string }; query: Paging; answer: Listed<ImageView> };
    "GET /v1/apps/{app}/calls": { path: { app: string }; query: Paging & { open?: boolean }; answer: Listed<ClientCallView> };
    "GET /v1/apps/{app}/threads/search": { path: { app: string }; query: { q: string }; answer: Listed<{ thread: ThreadView }> };
    "GET /v1/threads/{thread}/tree": { path: { thread: string }; query: Paging; answer: Listed<{ id: string }> };
    "PUT /v1/threads/{thread}/head": { path: { thread: string }; body: { messageId: string }; answer: ThreadView };
    "GET /v1/apps/{app}/records/{type}/{record}/versions": {
      path: { app: string; type: string; record: string };
      answer: Listed<{ version: number }>;
    };
    "GET /v1/apps/{app}/file-versions/{path}": { path: { app: string; path: string }; answer: Listed<{ version: number }> };
  }
}

export interface Paging {
  limit?: number;
  cursor?: string;
}

export interface Listed<T> {
  data: T[];
  next?: string | null;
}
