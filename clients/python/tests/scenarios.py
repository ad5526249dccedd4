"""What the package does with a real server, one scenario for each process: ``python scenarios.py FORM NAME URL``.

FORM is ``sync`` or ``async``. Each prints what it has seen; the tests in ``crates/cli/tests/clients`` start them, and judge.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import sys
import threading
from typing import Any

from rondo import (
    EMPTY,
    AsyncRondo,
    Conflict,
    ConnectionFailed,
    Event,
    NotFound,
    Rondo,
    RondoError,
    fold,
    tool,
)

#: A pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def shown(outcome: Any, **more: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(outcome), **more}


def check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{what}: {found!r} is not {expected!r}")


# Reads a run whose server dies.


def stream(rondo: Rondo) -> Any:
    events, page = [], EMPTY
    run = rondo.app("demo").run("What is 6 times 7?")
    for event in run:
        events.append({"type": event.type, "seq": event.seq, "data": event.data})
        page = fold(page, event)
        if event.type == "text:delta":
            say(f"said: {page.messages[-1].text}")
    result = run.result()
    check("the same run, read again", rondo.resume(run.id).text(), result.text)
    return shown(result, runId=run.id, threadId=run.thread_id, events=events, answer={"id": page.messages[-1].id})


async def stream_async(rondo: AsyncRondo) -> Any:
    events, page = [], EMPTY
    run = await rondo.app("demo").run("What is 6 times 7?")
    async for event in run:
        events.append({"type": event.type, "seq": event.seq, "data": event.data})
        page = fold(page, event)
        if event.type == "text:delta":
            say(f"said: {page.messages[-1].text}")
    result = await run.result()
    check("the same run, read again", await rondo.resume(run.id).text(), result.text)
    return shown(result, runId=run.id, threadId=run.thread_id, events=events, answer={"id": page.messages[-1].id})


def cancel(rondo: Rondo) -> Any:
    run = rondo.app("demo").run("Go on")
    for event in run:
        if event.type == "text:delta":
            break  # and closes the connection, which ends nothing
    run.cancel()
    return shown(run.result())


async def cancel_async(rondo: AsyncRondo) -> Any:
    run = await rondo.app("demo").run("Go on")
    async for event in run:
        if event.type == "text:delta":
            break
    await run.cancel()
    return shown(await run.result())


def approval(rondo: Rondo) -> Any:
    run = rondo.app("demo").run("What time is it?")
    waited = 0
    for event in run:
        if event.type != "proposal:open":
            continue
        waited += 1
        proposal = event.data["proposalId"]
        decided = rondo.confirm(proposal) if waited == 1 else rondo.reject(proposal)
        check("the decision", decided["status"], "confirmed" if waited == 1 else "rejected")
        try:
            rondo.confirm(proposal)
            raise AssertionError("decided twice")
        except Conflict as error:
            check("the second decision", error.code, "proposal_decided")
    return shown(run.result(), waited=waited)


async def approval_async(rondo: AsyncRondo) -> Any:
    run = await rondo.app("demo").run("What time is it?")
    waited = 0
    async for event in run:
        if event.type != "proposal:open":
            continue
        waited += 1
        proposal = event.data["proposalId"]
        decided = await (rondo.confirm(proposal) if waited == 1 else rondo.reject(proposal))
        check("the decision", decided["status"], "confirmed" if waited == 1 else "rejected")
    return shown(await run.result(), waited=waited)


made = 0


@tool
def where_is(exact: bool) -> dict[str, Any]:
    """Where the user is"""
    global made
    made += 1
    return {"city": "Oslo", "exact": exact, "made": made}


@tool
def breaks() -> None:
    """Always fails"""
    global made
    made += 1
    raise PermissionError("no permission")


def ask_user(question: str, choices: list[str]) -> dict[str, Any]:
    global made
    made += 1
    return {"choices": [choices[0]]}


TOOLS: dict[str, Any] = {"where_is": where_is, "breaks": breaks, "ask_user": ask_user}


def tools(rondo: Rondo) -> Any:
    app = rondo.app("demo")
    run = app.run("Where am I?", tools=TOOLS)
    result, before = run.result(), made
    rondo.resume(run.id, tools=TOOLS).result()
    check("a call is answered once", rondo.answer(result.steps[0].calls[0].id, "late"), None)
    check("open calls", app.calls(open=True).page().data, [])
    return shown(result, again=made - before)


async def tools_async(rondo: AsyncRondo) -> Any:
    app = rondo.app("demo")
    run = await app.run("Where am I?", tools=TOOLS)
    result = await run.result()
    before = made
    await rondo.resume(run.id, tools=TOOLS).result()
    check("a call is answered once", await rondo.answer(result.steps[0].calls[0].id, "late"), None)
    check("open calls", (await app.calls(open=True).page()).data, [])
    return shown(result, again=made - before)


class Watch:
    """What a reader of the user channel has seen, while another tab works."""

    def __init__(self, thread_id: str) -> None:
        self.seen: dict[str, Any] = {
            "threadId": thread_id, "followed": [], "notices": [], "ends": 0, "resyncs": 0, "finished": [],
        }
        self.runs: list[str] = []

    def take(self, event: Any) -> bool:
        """Whether a first run has just been finished."""
        seen = self.seen
        if isinstance(event, Event):
            check("the thread", event.thread_id, seen["threadId"])
            seen["followed"].append(event.seq)
            seen["ends"] += event.type == "run:end"
        elif event.type == "resync":
            seen["resyncs"] += 1
        else:
            seen["notices"].append(event.id)
            if event.type == "notice:run" and event.data["status"] == "completed":
                number = self.runs.index(event.data["runId"]) + 1
                seen["finished"].append(f"run_{number} completed")
                return len(self.runs) == 1
        return False

    @property
    def is_over(self) -> bool:
        return len(self.seen["finished"]) == 2 and self.seen["ends"] == 2


def channel(rondo: Rondo) -> Any:
    watch = Watch(rondo.app("demo").create_thread()["id"])

    def send(message: str) -> None:
        with Rondo(URL) as other, other.app("demo").run(message, thread_id=watch.seen["threadId"]) as run:
            watch.runs.append(run.id)

    for event in rondo.events(follow={watch.seen["threadId"]: 0}, on_open=lambda: send("One")):
        if watch.take(event):
            say("first")
            sys.stdin.readline()
            send("Two")
        if watch.is_over:
            break
    return watch.seen


async def channel_async(rondo: AsyncRondo) -> Any:
    watch = Watch((await rondo.app("demo").create_thread())["id"])

    async def send(message: str) -> None:
        async with AsyncRondo(URL) as other:
            async with await other.app("demo").run(message, thread_id=watch.seen["threadId"]) as run:
                watch.runs.append(run.id)

    async for event in rondo.events(follow={watch.seen["threadId"]: 0}, on_open=lambda: send("One")):
        if watch.take(event):
            say("first")
            await asyncio.to_thread(sys.stdin.readline)
            await send("Two")
        if watch.is_over:
            break
    return watch.seen


def threads(rondo: Rondo) -> Any:
    app = rondo.app("demo")
    first = app.run("Tell me about lighthouses").result()
    thread = rondo.thread(first.thread_id)
    second = app.run("And another one", thread_id=thread.id).result()
    again = app.run(regenerate=True, thread_id=thread.id).result()
    shown_branch = thread.messages().page().data
    check("the shown branch", shown_branch[-1]["id"], again.id)
    check("siblings", shown_branch[-1]["siblings"], {"ids": [second.id, again.id], "index": 1})
    check("all messages, page by page", len([one for one in thread.tree(limit=2)]), 5)
    thread.set_head(second.id or "")
    check("the chosen branch", thread.messages().page().data[-1]["id"], second.id)
    check("pinned", thread.change(title="Coasts", pinned=True)["pinned"], True)
    check("pinned threads", [one["id"] for one in app.threads(pinned=True)], [thread.id])
    check("found threads", [hit["thread"]["id"] for hit in app.search_threads("lighthouses")], [thread.id])
    check("of all apps", len(rondo.threads().page().data), 1)
    check("Markdown", b"lighthouses" in thread.export("markdown"), True)
    check("JSON", type(json.loads(thread.export("json"))), dict)
    check("undo of a run", rondo.preview_undo_run(first.run_id or "")["actions"], [])
    last = thread.get()["lastSeq"]
    check("the channel of the thread", next(iter(thread.events(last - 1))).seq, last)
    thread.delete()
    try:
        thread.get()
        raise AssertionError("a deleted thread is there")
    except NotFound as error:
        check("a deleted thread", error.status, 404)
    return {"problems": []}


def uploads(rondo: Rondo) -> Any:
    app = rondo.app("demo")
    text = "To start the lamp, press the green button for three seconds."
    document = app.upload_document(text, name="manual.md")
    listed = app.documents().page().data[0]
    check("the document", (listed["id"], listed["name"]), (document["id"], "manual.md"))
    answer = app.run("How do I start the lamp?", document_ids=[document["id"]]).result()
    check("the answer", answer.text, "It is in the manual.")
    check("its source", [source["id"] for source in answer.sources or ()][:1], [document["id"]])
    rondo.delete_document(document["id"])
    image = app.upload_image(PNG, name="dot.png")
    check("the same image", app.upload_image(PNG, media_type="image/png")["id"], image["id"])
    check("its width", image["width"], 1)
    check("its bytes", len(rondo.image(image["id"])) > 0, True)
    seen = app.run("What is this?", parts=[{"type": "image", "imageId": image["id"]}]).result()
    messages = rondo.thread(seen.thread_id).messages().page().data
    check("the part", messages[0]["parts"][0]["imageId"], image["id"])
    for code, act in (
        ("image_in_use", lambda: rondo.delete_image(image["id"])),
        (None, lambda: app.upload_image(b"<svg/>", media_type="image/svg+xml")),
    ):
        try:
            act()
            raise AssertionError(f"no refusal, but {code}")
        except RondoError as error:
            check("the refusal", (400 <= error.status < 500, code or error.code), (True, error.code))
    return {"problems": []}


def things(rondo: Rondo) -> Any:
    app = rondo.app("demo")
    memory = app.remember("Lives in Oslo.", kind="place")
    check("the memories", [one["text"] for one in app.memories()], ["Lives in Oslo."])
    check("a change", rondo.change_memory(memory["id"], text="Lives in Bergen.")["version"], 2)
    check("a search", app.search_memories("Bergen").data[0]["memory"]["id"], memory["id"])
    rondo.forget(memory["id"])
    check("a forgotten one", app.memories().page().data, [])
    rondo.restore_memory(memory["id"])
    rondo.forget(memory["id"], purge=True)
    path = "trips/my plan.md"
    app.files.put(path, "# Plan")
    check("the version", app.files.put(path, "# Plan\n\n- Pack", 1)["version"], 2)
    try:
        app.files.put(path, "x", 1)
        raise AssertionError("a stale version was taken")
    except Conflict as error:
        check("another version", error.code, "changed")
    check("the content", app.files.get(path).get("content"), "# Plan\n\n- Pack")
    check("its versions", [one["version"] for one in app.files.versions(path)], [2, 1])
    app.files.delete(path)
    check("the files", app.files.list().page().data, [])
    check("the apps", [one["id"] for one in rondo.apps()], ["demo"])
    check("models", len(rondo.models().page().data) > 0, True)
    check("any request", rondo.request("GET", "/v1/me")["userId"], "local")
    try:
        rondo.app("nobody").threads().page()
        raise AssertionError("there is an app `nobody`")
    except NotFound as error:
        check("an app that is not there", error.code, "not_found")
    try:
        Rondo("http://127.0.0.1:1", retries=0).app("demo").threads().page()
    except ConnectionFailed as error:
        check("nobody there", error.code, "connection_failed")
    return {"problems": []}


async def _async_main(name: str) -> Any:
    async with AsyncRondo(URL) as rondo:
        return await globals()[f"{name}_async"](rondo)


if __name__ == "__main__":
    FORM, NAME, URL = sys.argv[1:]
    if FORM == "async":
        printed = asyncio.run(_async_main(NAME))
    else:
        with Rondo(URL) as client:
            printed = globals()[NAME](client)
    print(json.dumps(printed, default=list))
    check("threads left over", [one.name for one in threading.enumerate() if not one.daemon], ["MainThread"])
