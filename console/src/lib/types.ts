// The objects of the API as far as the console shows them.

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cachedInputTokens?: number;
  reasoningTokens?: number;
  costUsd?: number;
  estimated?: boolean;
}
export interface AppView {
  id: string;
  name: string;
  description: string;
  model: string | null;
  models: string[];
  tools: string[];
  starters?: string[];
  problem?: string;
}
export interface ModelView {
  id: string;
  provider: string;
  kind: string;
  default: boolean;
  tools: boolean;
  vision: boolean;
  contextWindow: number;
  maxOutput: number | null;
  price?: { input: number; cachedInput: number; output: number };
  available: boolean;
}
export interface PersonaView {
  id: string;
  name: string;
  prompt: string;
  settings: Record<string, unknown>;
  origin: string;
  problem?: string;
}
export interface ThreadView {
  id: string;
  appId: string;
  title: string | null;
  headId: string | null;
  messageCount: number;
  model: string | null;
  personaId: string | null;
  activeRunId: string | null;
  lastSeq: number;
  createdAt: string;
  updatedAt: string;
  pinned?: boolean;
  archived?: boolean;
}
export interface Source {
  kind: string;
  id: string;
  title: string;
  place: string;
}
export interface MessagePart {
  type: 'image' | 'document';
  imageId?: string;
  documentId?: string;
  mediaType?: string;
  width?: number;
  height?: number;
  name?: string;
}
export interface ToolResultView {
  callId: string;
  name: string;
  result: unknown;
  success: boolean;
  status?: string;
  durationMs?: number;
}
export interface Message {
  id: string;
  role: 'user' | 'assistant';
  text: string;
  parentId: string | null;
  runId: string | null;
  model: string | null;
  toolCalls: { id: string; name: string; input: unknown }[];
  toolResults: ToolResultView[];
  memoriesReferenced: string[];
  createdAt: string;
  siblings?: { ids: string[]; index: number };
  reasoning?: string;
  sources?: Source[];
  usage?: Usage;
  durationMs?: number;
  /** On a message of the user, how its run ended if it ended without an answer. */
  status?: string;
  error?: { code: string; message: string };
  parts?: MessagePart[];
}
export interface QueuedMessage {
  runId: string;
  text: string;
  parts?: MessagePart[];
}
export interface PinView {
  id: string;
  text: string;
  threadId?: string | null;
  createdAt: string;
}
export interface CredentialView {
  name: string;
  updatedAt: string;
}
export interface RunView {
  id: string;
  threadId: string;
  appId: string;
  messageId: string;
  status: string;
  model: string | null;
  error: { code: string; message: string } | null;
  usage: Usage;
  createdAt: string;
  endedAt: string | null;
}
export interface ProposalView {
  id: string;
  appId: string;
  tool: string;
  input: unknown;
  note: string | null;
  status: string;
  threadId: string | null;
  runId: string | null;
  callId: string | null;
  actionId: string | null;
  expiresAt: string;
  createdAt: string;
}
export interface ClientCallView {
  id: string;
  appId: string;
  name: string;
  input: unknown;
  status: string;
  threadId: string;
  runId: string;
  expiresAt: string;
  createdAt: string;
}
export interface ActionView {
  id: string;
  tool: string;
  input: unknown;
  output: unknown;
  status: string;
  effect: string;
  startedAt: string;
  durationMs: number | null;
  actor?: string;
  appId: string;
  threadId: string | null;
  runId: string | null;
  step: number | null;
  undone: boolean;
  undoable: boolean;
  undoneBy: string | null;
  undoOf: string | null;
}
export interface UndoChange {
  kind: string;
  id: string;
  label?: string;
  before: unknown;
  after: unknown;
}
export interface UndoPreview {
  possible: boolean;
  reason?: string;
  changes: UndoChange[];
  actionId?: string;
  tool?: string;
}
export interface MemoryView {
  id: string;
  appId: string;
  text: string;
  kind: string;
  status: string;
  version: number;
  accessCount: number;
  lastAccessedAt: string | null;
  createdAt: string;
  updatedAt: string;
  validFrom: string | null;
  validUntil: string | null;
  supersededBy: string | null;
  source: { by: string; threadId: string | null; messageId: string | null; words: string | null; at: string | null; note?: string };
}
export interface MemoryHistory {
  memory: MemoryView;
  versions: { version: number; text: string; kind: string; status: string; reason: string; at: string }[];
  sources: { threadId: string | null; messageId: string | null; words: string | null; at: string | null; note?: string }[];
}
export interface DocumentView {
  id: string;
  name: string;
  title: string | null;
  kind: string;
  bytes: number;
  pages: number | null;
  status: string;
  progress: { done: number; total: number };
  suspicious: number;
  createdAt: string;
}
export interface RecordView {
  id: string;
  type: string;
  version: number;
  data: Record<string, unknown>;
  createdAt: string;
  updatedAt: string;
}
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  default?: unknown;
  [key: string]: unknown;
}
export interface RecordTypeView {
  type: string;
  schema: Schema;
  tools: { name: string; does: string }[];
}
export interface FileView {
  path: string;
  version: number;
  content?: string;
  bytes: number;
  updatedAt: string;
}
export interface Cost {
  fragment: string;
  tokens: number;
}
export interface PromptLedger {
  tokens: number;
  limit: number;
  exact: boolean;
  fragments: Cost[];
  leftOut?: { fragment: string; what: string; tokens: number }[];
  droppedExchanges?: number;
  without?: string[];
  resultBytes?: number;
  messageBytes?: number;
}
export interface PromptView {
  runId: string;
  step: number;
  model: string | null;
  contextWindow: number;
  ledger: PromptLedger;
  usage: Usage | null;
  fragments: { name: string; tokens: number; text: string }[];
  messages: unknown[];
  tools: string[];
  warnings?: { code: string; message: string }[];
}
export interface AccessView {
  user: string;
  actor?: string;
  apps: string[] | null;
  rights: string[];
  proof: 'none' | 'key' | 'jwt' | 'session';
  expiresAt: string | null;
}
