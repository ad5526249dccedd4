import type * as api from "./schema.js";

/** The body of each event, by its name. Future servers will add more: ignore those that you do not know. */
export interface EventBodies {
  "message:user": api.MessageUser;
  "run:start": api.RunStart;
  "context:loaded": api.ContextLoaded;
  source: api.Source;
  "step:start": api.StepStart;
  "text:delta": api.TextDelta;
  "reasoning:delta": api.ReasoningDelta;
  "tool:input": api.ToolInput;
  "step:retry": api.StepRetry;
  "step:reset": api.StepReset;
  "step:end": api.StepEnd;
  "tool:start": api.ToolStart;
  "tool:complete": api.ToolComplete;
  "proposal:open": api.ProposalOpen;
  "proposal:closed": api.ProposalClosed;
  "call:open": api.CallOpen;
  "stream:complete": api.StreamComplete;
  "run:end": api.RunEnd;
  "thread:named": api.ThreadNamed;
  "thread:head": api.ThreadHead;
  "thread:changed": api.ThreadChanged;
  "memory:update": api.MemoryUpdate;
  summary: api.Summary;
  /** Sent, never stored: the current state of a run, for a reader whose last event is not in the log. */
  snapshot: api.Snapshot;
}

/** One event of a thread's log. `seq` is its number in that log. */
export type RondoEvent = {
  [K in keyof EventBodies]: { type: K; seq: number; data: EventBodies[K] };
}[keyof EventBodies];

/** An event of a followed thread, as the user channel brings it. */
export type FollowedEvent = RondoEvent & { threadId: string; runId?: string };

/** The body of each notice of the user channel, by its name. */
export interface NoticeBodies {
  "notice:thread": api.ThreadNotice;
  "notice:run": api.RunNotice;
  "notice:proposal": api.ProposalNotice;
  "notice:call": api.CallNotice;
  "notice:memory": api.MemoryNotice;
  "notice:document": api.DocumentNotice;
  /** Notices were missed: read everything again. */
  resync: Record<string, never>;
}

/** Something of the user has changed. `id` is the number of the notice for this user. */
export type Notice = {
  [K in keyof NoticeBodies]: { type: K; id: number; data: NoticeBodies[K] };
}[keyof NoticeBodies];

/** The events of the user channel. Only events of followed threads have a `threadId`. */
export type ChannelEvent = FollowedEvent | (Notice & { threadId?: undefined });
