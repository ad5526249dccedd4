"""Runs the calls of tools while a run is read: each in a task of its own, and each once."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Awaitable, Callable, Mapping, Protocol

from .. import schema
from .._errors import RondoError
from .._tools import ClientTool, error_words

#: Calls that run at the same time. Others wait.
MAX_CALLS_AT_ONCE = 16


class CallDesk(Protocol):
    """What answers calls: the client."""

    async def call(self, call_id: str) -> schema.ClientCallView: ...

    async def answer_patiently(self, call_id: str, body: Mapping[str, Any]) -> object: ...


class AsyncCallRunner:
    """The calls of one run."""

    def __init__(self, desk: CallDesk, tools: Mapping[str, ClientTool]) -> None:
        self._desk = desk
        self._tools = tools
        self._begun: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

    def begin(self, call: schema.CallOpen) -> None:
        """Begins a call if its tool is known here. A failed answer is no failure of the stream that told of it."""
        tool = self._tools.get(call["name"])
        if tool is None or call["callId"] in self._begun:
            return
        self._begun.add(call["callId"])
        task = asyncio.create_task(self._run(tool, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Lets calls go on. They run by themselves here."""

    async def close(self) -> None:
        """Ends calls that are still under way: the run has no reader any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, tool: ClientTool, call: schema.CallOpen) -> None:
        try:
            async with self._room:
                await make_call(self._desk, tool, call)
        except asyncio.CancelledError:
            self._begun.discard(call["callId"])
            raise
        except RondoError:
            self._begun.discard(call["callId"])


async def make_call(desk: CallDesk, tool: ClientTool, call: schema.CallOpen) -> None:
    # A stream that is read again also tells of calls that were answered long ago.
    if (await desk.call(call["callId"]))["status"] != "open":
        return
    body: dict[str, Any]
    try:
        body = {"result": await _made(tool.run, call["input"])}
    except Exception as error:
        body = {"error": error_words(error)}
    try:
        await desk.answer_patiently(call["callId"], body)
    except (RondoError, TypeError, ValueError) as error:
        if isinstance(error, RondoError) and not 400 <= error.status < 500:
            raise
        # The server does not take this result, such as one that is too large. The model is told, and the run goes on.
        await desk.answer_patiently(call["callId"], {"error": error_words(error)})


async def _made(run: Callable[..., Any], given: Any) -> Any:
    """Calls a function of the user. One that may block runs in a thread."""
    if not isinstance(given, dict):
        raise ValueError("the arguments are not an object")
    if inspect.iscoroutinefunction(run):
        return await run(**given)
    result = await asyncio.to_thread(run, **given)
    return await result if isinstance(result, Awaitable) else result
