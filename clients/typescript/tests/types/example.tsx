// Programs that must compile, and lines that must not: what an editor tells who uses the package.
import { type Conversation, Rondo, RondoError, type RondoEvent, type ThreadView, empty, fold } from "@rondo/client";
import { useThread } from "@rondo/client/react";
import { ThreadStore } from "@rondo/client/store";

const rondo = new Rondo({ baseUrl: "https://example.org", token: async () => "jwt" });

export async function events(): Promise<string> {
  const run = rondo.app("studio").run({ message: "Hi", settings: { temperature: 0.2 }, onBusy: "queue" });
  let page: Conversation = empty;
  for await (const event of run) {
    page = fold(page, event);
    switch (event.type) {
      case "text:delta": {
        const delta: string = event.data.delta;
        console.log(delta, event.seq);
        break;
      }
      case "proposal:open":
        await rondo.confirm(event.data.proposalId);
        // @ts-expect-error: a proposal has no delta
        console.log(event.data.delta);
        break;
      case "tool:complete":
        // @ts-expect-error: no such status
        console.log(event.data.status === "finished");
        break;
    }
  }
  // @ts-expect-error: no such event
  const isOdd = (event: RondoEvent) => event.type === "text:deltas";
  return `${await run.text()}${String(isOdd)}`;
}

export async function requests(): Promise<void> {
  const app = rondo.app("studio");
  const page = await app.threads({ limit: 10 });
  const first: ThreadView | undefined = page.data[0];
  for await (const thread of app.threads()) console.log(thread.id, thread.title, first?.lastSeq);
  const thread = await rondo.request("GET /v1/threads/{thread}", { path: { thread: "thr_1" } });
  console.log(thread.lastSeq.toFixed());
  // @ts-expect-error: a name is missing in the path
  await rondo.request("GET /v1/threads/{thread}", { path: {} });
  // @ts-expect-error: no such request
  await rondo.request("GET /v1/thread");
  // @ts-expect-error: a message is a text
  app.run({ message: 3 });
  app.run({
    message: "Where am I?",
    signal: new AbortController().signal,
    tools: { where: { description: "The place", parameters: { type: "object" }, run: () => ({ city: "Oslo" }) } },
  });
  try {
    await rondo.thread("thr_1").delete();
  } catch (error) {
    if (error instanceof RondoError) console.log(error.code, error.status, error.detail, error.retryAfter);
  }
  for await (const event of rondo.events({ follow: { thr_1: 12 } })) {
    if (event.threadId) console.log(event.seq);
    else if (event.type === "notice:run") console.log(event.id, event.data.status);
  }
  new ThreadStore(rondo, { app: "studio" }).subscribe(() => {});
}

export function Chat({ threadId }: { threadId: string }) {
  const { messages, status, send, stop, proposals, approve } = useThread(rondo, { app: "studio", threadId });
  return (
    <main>
      {messages.map((message) => (
        <p key={message.key}>{message.text}</p>
      ))}
      {proposals.map(({ proposalId, name }) => (
        <button key={proposalId} onClick={() => approve(proposalId)}>
          {name}
        </button>
      ))}
      <button onClick={() => (status === "idle" ? send("Hi") : stop())}>{status}</button>
    </main>
  );
}
