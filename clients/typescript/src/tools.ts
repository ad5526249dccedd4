import { RondoError } from "./error.js";
import type * as api from "./schema.js";

/** A tool that runs here, in the client. */
export interface ClientTool {
  /** For the model. With `parameters`, it declares the tool for this run; without both, the app has declared it. */
  description?: string;
  /** A JSON Schema of the arguments. */
  parameters?: object;
  /** Makes the call. The answer is its result; an error is told to the model, which then goes on. */
  // Arguments have the shape of `parameters`, which only the caller knows.
  run(input: any, call: api.CallOpen): unknown;
}

export type ClientTools = Record<string, ClientTool>;

/** The tools that a request declares. */
export function declared(tools: ClientTools | undefined): { tools?: object[] } {
  const entries = Object.entries(tools ?? {}).filter(([, { description, parameters }]) => description || parameters);
  if (!entries.length) return {};
  return {
    tools: entries.map(([name, { description = "", parameters = { type: "object" } }]) => ({ name, description, parameters })),
  };
}

export type CallAnswer = { result: unknown } | { error: string };

/** The side that answers calls: the client. */
export interface CallDesk {
  call(callId: string, signal?: AbortSignal): Promise<api.ClientCallView>;
  answer(callId: string, answer: CallAnswer, signal?: AbortSignal): Promise<unknown>;
}

/** Runs the calls of tools, each once. */
export class CallRunner {
  #begun = new Set<string>();

  constructor(
    readonly desk: CallDesk,
    readonly tools: () => ClientTools,
    readonly signal?: AbortSignal,
  ) {}

  /** Begins a call if its tool is known here. A failed answer is no failure of the stream that told of the call. */
  begin(call: api.CallOpen): void {
    const tools = this.tools();
    const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined;
    if (!tool || this.#begun.has(call.callId)) return;
    this.#begun.add(call.callId);
    void this.#run(tool, call).catch(() => this.#begun.delete(call.callId));
  }

  async #run(tool: ClientTool, call: api.CallOpen): Promise<void> {
    // A stream that is read again also tells of calls that were answered long ago.
    const { status } = await this.desk.call(call.callId, this.signal);
    if (status !== "open") return;
    let answer: CallAnswer;
    try {
      answer = { result: (await tool.run(call.input, call)) ?? null };
    } catch (error) {
      answer = { error: error instanceof Error ? error.message : String(error) };
    }
    try {
      await this.desk.answer(call.callId, answer, this.signal);
    } catch (error) {
      if (!(error instanceof RondoError) || error.status < 400 || error.status >= 500) throw error;
      // The server does not take this result, such as one that is too large. The model is told, and the run goes on.
      await this.desk.answer(call.callId, { error: error.detail }, this.signal);
    }
  }
}
