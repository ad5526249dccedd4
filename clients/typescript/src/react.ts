import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { Rondo } from "./client.js";
import { type ThreadState, ThreadStore, type ThreadStoreOptions } from "./store.js";

export { type ThreadState, ThreadStore, type ThreadStoreOptions } from "./store.js";

/** A thread, as it is now, and what a page can do with it. */
export type UseThread = ThreadState & Pick<ThreadStore, "send" | "stop" | "approve" | "reject" | "answer" | "choose">;

/**
 * Reads a thread and follows it: messages, the answer under way, proposals and calls. Without a `threadId`, the first
 * message makes a thread, and the state then has its id.
 */
export function useThread(rondo: Rondo, { app, threadId, tools }: ThreadStoreOptions): UseThread {
  const kept = useRef<{ store: ThreadStore; asked: string | undefined }>(undefined);
  const last = kept.current;
  // A page that learns the id of a new thread and asks for it then goes on with what it shows.
  const isSame =
    last?.store.rondo === rondo && last.store.app === app && (threadId === last.asked || threadId === last.store.threadId);
  const store = last && isSame ? last.store : new ThreadStore(rondo, { app, threadId, tools });
  kept.current = { store, asked: threadId };
  useEffect(() => {
    store.tools = tools ?? {};
  }, [store, tools]);
  const state = useSyncExternalStore(store.subscribe, store.snapshot, store.snapshot);
  const acts = useMemo(
    () => ({
      send: ((request) => store.send(request)) as ThreadStore["send"],
      stop: () => store.stop(),
      approve: (id: string) => store.approve(id),
      reject: (id: string) => store.reject(id),
      answer: ((id, answer) => store.answer(id, answer)) as ThreadStore["answer"],
      choose: (id: string) => store.choose(id),
    }),
    [store],
  );
  return useMemo(() => ({ ...state, ...acts }), [state, acts]);
}
