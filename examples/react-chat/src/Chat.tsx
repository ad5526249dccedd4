import { type ClientTools, Rondo, type ShownMessage } from "@rondo/client";
import { useThread } from "@rondo/client/react";
import { type FormEvent, useState } from "react";

// One client for the whole page. The requests go to the origin of the page; vite.config.ts forwards them.
const rondo = new Rondo();

/** The app is in the address, as is the thread: `/?app=demo&thread=thr_…` can be opened again. */
const address = new URLSearchParams(location.search);
const app = address.get("app") ?? "demo";

/** A tool that only the page can run. The model calls it, and the page answers. */
const tools: ClientTools = {
  page_time: {
    description: "The time and the time zone of the user's browser",
    parameters: { type: "object", properties: {} },
    run: () => ({ time: new Date().toISOString(), zone: Intl.DateTimeFormat().resolvedOptions().timeZone }),
  },
};

export function Chat() {
  const [text, setText] = useState("");
  const thread = useThread(rondo, { app, tools, threadId: address.get("thread") ?? undefined });
  const { messages, status, proposals, error, isSending } = thread;

  async function send(event: FormEvent) {
    event.preventDefault();
    if (!text.trim()) return;
    setText("");
    const { threadId } = await thread.send(text);
    history.replaceState(null, "", `?app=${encodeURIComponent(app)}&thread=${threadId}`);
  }

  return (
    <main>
      <ol aria-label="Messages">
        {messages.map((message) => (
          <Message key={message.key} message={message} />
        ))}
      </ol>
      {proposals.map(({ proposalId, name, input }) => (
        <section key={proposalId} aria-label="Approval">
          <p>
            May I call <b>{name}</b> with <code>{JSON.stringify(input)}</code>?
          </p>
          <button onClick={() => thread.approve(proposalId)}>Approve</button>
          <button onClick={() => thread.reject(proposalId)}>Reject</button>
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" autoFocus value={text} onChange={(event) => setText(event.target.value)} />
        {status === "idle" ? (
          <button disabled={isSending}>Send</button>
        ) : (
          <button type="button" onClick={() => thread.stop()}>
            Stop
          </button>
        )}
      </form>
    </main>
  );
}

/** A message. Of an answer, the tool calls are shown before its words. */
function Message({ message }: { message: ShownMessage }) {
  const calls = message.steps?.flatMap((step) => step.calls) ?? [];
  return (
    <li className={message.role}>
      {calls.map((call) => (
        <p key={call.id} className="call">
          {call.name}: {call.status}
        </p>
      ))}
      <p>{message.text || (message.status === "running" ? "…" : "")}</p>
      {message.error && <p role="alert">{message.error.message}</p>}
    </li>
  );
}
