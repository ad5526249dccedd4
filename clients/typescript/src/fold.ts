import { defined } from "./error.js";
import type { EventBodies, RondoEvent } from "./events.js";
import type * as api from "./schema.js";

/** The part of a thread that a page shows. It is never changed: `fold` makes the next one. */
export interface Conversation {
  threadId?: string;
  title?: string | null;
  pinned?: boolean;
  archived?: boolean;
  /** The number of the newest event in it. */
  seq: number;
  /** The messages of the shown branch, oldest first. The answer under way is the last one. */
  messages: ShownMessage[];
  /** The run under way. */
  runId?: string;
  /** `idle`, or how the run under way stands. */
  status: "idle" | "running" | "waiting";
  /** Calls that wait for the user's approval. */
  proposals: api.ProposalOpen[];
  /** Calls that this client, or another one of the user, is to run. */
  calls: api.CallOpen[];
  /** The events do not tell everything that the page shows now: read the thread again. */
  stale?: true;
}

export interface ShownMessage {
  /** A key that stays from the first event to the last: the id of the user's message, or of the run that answers. */
  key: string;
  /** The id of the message; an answer has it when it is stored. */
  id?: string;
  role: "user" | "assistant";
  text: string;
  parentId?: string | null;
  runId?: string;
  parts?: api.MessagePart[];
  /** The other messages in this place, with this one, oldest first. */
  siblings?: { ids: string[]; index: number };
  createdAt?: string;
  /** From here on: answers only. */
  status?: api.RunStatus;
  steps?: ShownStep[];
  sources?: api.Source[];
  warnings?: api.Warning[];
  memoriesReferenced?: string[];
  data?: unknown;
  usage?: api.Usage;
  error?: api.Failure;
  model?: string;
  durationMs?: number;
}

/** One model call and the tool calls that it asks for. */
export interface ShownStep {
  step: number;
  model?: string;
  text: string;
  reasoning?: string;
  calls: ShownCall[];
  /** Why it ended; absent while it streams. */
  finish?: api.Finish;
  /** The model call failed and is repeated. */
  retry?: api.StepRetry;
}

export interface ShownCall {
  id: string;
  name: string;
  /** The arguments, once they are complete. */
  input?: unknown;
  /** The arguments as they stream. */
  inputText?: string;
  /**
   * `streaming`, `pending`, then `proposed` (waits for approval), `open` (waits for the client) or `running`, and at the
   * end the status of the result.
   */
  status: "streaming" | "pending" | "proposed" | "open" | "running" | api.ToolStatus;
  output?: unknown;
  durationMs?: number;
  proposalId?: string;
  expiresAt?: string;
}

/** A conversation of which nothing is known yet. */
export const empty: Conversation = { seq: 0, messages: [], status: "idle", proposals: [], calls: [] };

/** A conversation as the server lists it: a thread and the messages of its shown branch. */
export function loaded(thread: api.ThreadView, messages: api.Message[]): Conversation {
  return {
    ...empty,
    threadId: thread.id,
    title: thread.title ?? null,
    ...defined("pinned", thread.pinned),
    ...defined("archived", thread.archived),
    seq: thread.lastSeq,
    messages: messages.map(shown),
  };
}

function shown(message: api.Message): ShownMessage {
  const { id, role, text, parentId, createdAt } = message;
  const common = { id, role, text, parentId: parentId ?? null, createdAt };
  const rest = { ...defined("parts", message.parts), ...defined("siblings", message.siblings) };
  if (role === "user") return { key: id, ...common, ...rest };
  const results = new Map(message.toolResults.map((result) => [result.callId, result]));
  const calls = message.toolCalls.map((call): ShownCall => {
    const result = results.get(call.id);
    const status = result?.status ?? (result?.success ? "complete" : "failed");
    return { ...call, status, output: result?.result, ...defined("durationMs", result?.durationMs) };
  });
  return {
    key: message.runId ?? id,
    ...common,
    ...defined("runId", message.runId),
    ...rest,
    status: message.status ?? "completed",
    steps: [{ step: 1, text, calls, finish: "stop", ...defined("reasoning", message.reasoning) }],
    memoriesReferenced: message.memoriesReferenced,
    ...defined("sources", message.sources),
    ...defined("usage", message.usage),
    ...defined("model", message.model),
    ...defined("durationMs", message.durationMs),
  };
}

type Event<K extends keyof EventBodies> = { type: K; seq: number; data: EventBodies[K] };

/** Events that set a value of the thread, so that they may be folded again. */
const isSetting = (type: string) => type === "thread:named" || type === "thread:changed";

/**
 * The conversation after one more event. It is pure, and an event that is already in it changes nothing. Events of a run's
 * stream, of a thread's channel and of the user channel fold to the same conversation.
 */
export function fold(state: Conversation, event: RondoEvent): Conversation {
  const isOld = event.seq <= state.seq;
  // A snapshot stands for events that are gone, so its number may be any.
  if (event.type !== "snapshot" && isOld && !isSetting(event.type)) return state;
  const act = acts[event.type] as (state: Conversation, data: unknown) => Conversation;
  const next = Object.hasOwn(acts, event.type) ? act(state, event.data) : state;
  return { ...next, seq: event.type === "snapshot" ? event.seq : Math.max(state.seq, event.seq) };
}

type Act<K extends keyof EventBodies> = (state: Conversation, data: EventBodies[K]) => Conversation;

const acts: { [K in keyof EventBodies]?: Act<K> } = {
  "message:user": (state, { messageId, parentId, text, parts }) => {
    if (state.messages.some(({ id }) => id === messageId)) return state;
    // The server shows the trimmed text everywhere else.
    const message = { key: messageId, id: messageId, role: "user" as const, text: text.trim(), parentId: parentId ?? null };
    return place(state, parentId, { ...message, ...defined("parts", parts) });
  },
  "run:start": (state, { runId, threadId, messageId, model }) => {
    const answer: ShownMessage = { key: runId, role: "assistant", text: "", parentId: messageId, runId, status: "running", steps: [] };
    const known = { ...answer, ...defined("model", model) };
    return { ...place(state, messageId, known), threadId, runId, status: "running", proposals: [], calls: [] };
  },
  "context:loaded": (state, { warnings }) => answer(state, () => (warnings?.length ? { warnings } : {})),
  source: (state, source) => answer(state, ({ sources = [] }) => ({ sources: [...sources, source] })),
  "step:start": (state, { step, model }) =>
    answer(state, ({ steps = [] }) => ({ text: "", steps: [...steps, { step, model, text: "", calls: [] }] })),
  "text:delta": (state, { step, delta }) => inStep(state, step, (open) => ({ text: open.text + delta })),
  "reasoning:delta": (state, { step, delta }) =>
    inStep(state, step, ({ reasoning = "" }) => ({ reasoning: reasoning + delta })),
  "tool:input": (state, { step, callId, name, delta }) =>
    inStep(state, step, ({ calls }) => {
      const call = calls.find(({ id }) => id === callId) ?? { id: callId, name, status: "streaming", inputText: "" };
      const more = { ...call, inputText: call.inputText + delta };
      return { calls: calls.includes(call) ? calls.map((old) => (old === call ? more : old)) : [...calls, more] };
    }),
  "step:retry": (state, retry) => inStep(state, retry.step, () => ({ retry })),
  "step:reset": (state, { step, model }) =>
    answer(state, ({ steps = [] }) => ({
      text: "",
      steps: steps.map((old) => (old.step === step ? { step, ...defined("model", model ?? old.model), text: "", calls: [] } : old)),
    })),
  "step:end": (state, { step, text, reasoning, calls, finish, model }) =>
    inStep(state, step, (open) => ({
      model: model ?? open.model,
      reasoning: reasoning ?? undefined,
      retry: undefined,
      text,
      finish,
      calls: calls.map(({ id, name, input }) => ({ id, name, input, status: "pending" })),
    })),
  "tool:start": (state, { callId }) => call(state, callId, { status: "running" }),
  "tool:complete": (state, { callId, status, output, durationMs }) =>
    call(closed(state, callId), callId, { status, output, durationMs }),
  "proposal:open": (state, proposal) => {
    const { callId, proposalId, expiresAt } = proposal;
    const next = call(state, callId, { status: "proposed", proposalId, expiresAt });
    return settled({ ...next, proposals: [...next.proposals, proposal] });
  },
  "proposal:closed": (state, { callId }) => call(closed(state, callId), callId, { status: "pending" }),
  "call:open": (state, open) => {
    const next = call(state, open.callId, { status: "open", expiresAt: open.expiresAt });
    return settled({ ...next, calls: [...next.calls, open] });
  },
  "stream:complete": (state, { messageId, text, memoriesReferenced, data, usage }) =>
    answer(state, ({ steps = [] }) => {
      // An answer that no model wrote is no step of the log, but a page shows it like one.
      const ended = steps.filter(({ finish }) => finish !== undefined);
      const isSaid = ended.at(-1)?.text === text;
      const said = isSaid ? ended : [...ended, { step: ended.length + 1, text, calls: [], finish: "stop" as const }];
      return { id: messageId, text, steps: said, memoriesReferenced, usage, ...defined("data", data) };
    }),
  "run:end": (state, { runId, status, error, messageId }) => {
    if (runId !== state.runId) return state; // a queued run that was cancelled
    const ended = answer(state, (message) => {
      // Pieces of a step without an end count for nothing.
      const steps = message.steps?.filter(({ finish }) => finish !== undefined) ?? [];
      const text = message.id ? message.text : (steps.at(-1)?.text ?? "");
      return { status, steps, text, ...defined("error", error), ...defined("id", messageId) };
    });
    const { runId: _, ...idle } = ended;
    return { ...idle, status: "idle", proposals: [], calls: [] };
  },
  "thread:named": (state, { title }) => ({ ...state, title }),
  "thread:changed": (state, { pinned, archived }) => ({ ...state, ...defined("pinned", pinned), ...defined("archived", archived) }),
  "thread:head": (state, { headId }) => (state.messages.at(-1)?.id === headId ? state : { ...state, stale: true }),
  snapshot: (state, { runId, threadId, status, text, messageId, memoriesReferenced, data, error }) => {
    const isOver = !["queued", "running", "waiting"].includes(status);
    const message: ShownMessage = {
      ...(state.messages.find(({ key }) => key === runId) ?? { key: runId, role: "assistant", runId }),
      ...defined("id", messageId),
      text,
      status,
      steps: [{ step: 1, text, calls: [] }],
      ...defined("memoriesReferenced", memoriesReferenced),
      ...defined("data", data),
      ...defined("error", error),
    };
    const isThere = state.messages.some(({ key }) => key === runId);
    const messages = isThere ? state.messages.map((old) => (old.key === runId ? message : old)) : [...state.messages, message];
    const { runId: _, ...idle } = { ...state, threadId, messages, proposals: [], calls: [], stale: true as const };
    return isOver ? { ...idle, status: "idle" } : { ...idle, runId, status: status === "waiting" ? "waiting" : "running" };
  },
};

/** Puts a message after its parent. Messages after the parent belong to another branch from now on. */
function place(state: Conversation, parentId: string | null | undefined, message: ShownMessage): Conversation {
  const at = parentId ? state.messages.findIndex(({ id }) => id === parentId) + 1 : 0;
  // Only a reader that knows the beginning of the thread can say what comes after what.
  const isLost = !at && !!parentId && state.messages.length > 0;
  const kept = isLost ? state.messages : state.messages.slice(0, at);
  const other = isLost ? undefined : state.messages[at];
  const ids = other?.role === message.role && other.key !== message.key ? (other.siblings?.ids ?? (other.id ? [other.id] : [])) : [];
  const siblings = ids.length ? { siblings: { ids: [...ids, ...(message.id ? [message.id] : [])], index: ids.length } } : {};
  return { ...state, messages: [...kept, { ...message, ...siblings }], ...(isLost ? { stale: true as const } : {}) };
}

/** Changes the answer of the run under way. */
function answer(state: Conversation, change: (message: ShownMessage) => Partial<ShownMessage>): Conversation {
  const last = state.messages.at(-1);
  if (!last || last.key !== state.runId) return state;
  const next = { ...last, ...change(last) };
  if (next.siblings && next.id && !last.id) next.siblings = { ...next.siblings, ids: [...next.siblings.ids, next.id] };
  return { ...state, messages: [...state.messages.slice(0, -1), next] };
}

/** Changes a step of the run under way. An answer that no model wrote has text, but no step that has begun. */
function inStep(
  state: Conversation,
  step: number,
  change: (step: ShownStep) => { [K in keyof ShownStep]?: ShownStep[K] | undefined },
): Conversation {
  return answer(state, ({ steps = [] }) => {
    const open = steps.find((old) => old.step === step) ?? { step, text: "", calls: [] };
    const next = Object.fromEntries(
      Object.entries({ ...open, ...change(open) }).filter(([, value]) => value !== undefined),
    ) as unknown as ShownStep;
    return { text: next.text, steps: [...steps.filter((old) => old !== open), next] };
  });
}

/** Changes a call of the run under way. */
function call(state: Conversation, id: string, change: Partial<ShownCall>): Conversation {
  const alter = (step: ShownStep) =>
    step.calls.some((old) => old.id === id)
      ? { ...step, calls: step.calls.map((old) => (old.id === id ? { ...old, ...change } : old)) }
      : step;
  return settled(answer(state, ({ steps = [] }) => ({ steps: steps.map(alter) })));
}

/** Without what waited for this call. */
function closed(state: Conversation, callId: string): Conversation {
  const others = <T extends { callId: string }>(all: T[]) => all.filter((one) => one.callId !== callId);
  return { ...state, proposals: others(state.proposals), calls: others(state.calls) };
}

/** A run waits when each of its open calls waits for the user. */
function settled(state: Conversation): Conversation {
  if (!state.runId) return state;
  const calls = state.messages.at(-1)?.steps?.flatMap((step) => step.calls) ?? [];
  const open = calls.filter(({ status }) => ["pending", "running", "proposed", "open"].includes(status));
  const waits = open.length > 0 && open.every(({ status }) => status === "proposed" || status === "open");
  const status = waits ? "waiting" : "running";
  const next = status === state.status ? state : { ...state, status: status as Conversation["status"] };
  return answer(next, (message) => (message.status === status ? {} : { status }));
}
