# The synchronous form of this file is made by scripts/unasync.py.
"""A run: its events, its end, and what can be done with it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import fields
from types import TracebackType
from typing import AsyncGenerator, AsyncIterator, Mapping

import httpx

from .. import schema
from .._errors import ConnectionFailed, RunFailed
from .._events import RondoEvent, is_over, parsed
from .._fold import EMPTY, Conversation, RunOutcome, ShownMessage, fold
from .._sse import Frame
from .._tools import ClientTool
from .._wire import Request, fill
from ._calls import AsyncCallRunner, CallDesk
from ._http import AsyncHttp
from ._stream import AsyncFeed, follow


class AsyncRun:
    """A run. It continues when the connection is lost, and even without a reader.

    Each loop over it begins with its first event (or with the one after ``after``), and ends with its last. To leave the
    loop ends the reading, not the run.
    """

    def __init__(
        self,
        http: AsyncHttp,
        desk: CallDesk,
        *,
        run_id: str,
        thread_id: str = "",
        after: int = 0,
        first: httpx.Response | None = None,
        tools: Mapping[str, ClientTool] | None = None,
    ) -> None:
        #: The id of the run.
        self.id = run_id
        #: The id of its thread. In a run that is resumed, it is empty until the first event.
        self.thread_id = thread_id
        #: What the events up to now show.
        self.state: Conversation = EMPTY
        self._http = http
        self._after = after
        self._first = first
        self._calls = AsyncCallRunner(desk, tools) if tools else None

    def __aiter__(self) -> AsyncIterator[RondoEvent]:
        return self._read(self._after)

    async def _read(self, after: int) -> AsyncGenerator[RondoEvent, None]:
        calls = self._calls
        try:
            async with aclosing(follow(self._http, _RunFeed(self, after))) as events:
                async for event in events:
                    # A loop may read again what another one has folded.
                    self.state = fold(self.state, event)
                    self.thread_id = self.thread_id or self.state.thread_id or ""
                    if calls and event.type == "call:open":
                        calls.begin(event.data)
                    yield event
                    if calls:
                        await calls.settle()
        finally:
            if calls:
                await calls.close()

    async def result(self) -> RunOutcome:
        """Waits for the end, and says how it was. A run that failed is an outcome, too."""
        outcome = self._outcome()
        if outcome is None:
            async for _ in self._read(self.state.seq or self._after):
                pass
            outcome = self._outcome()
        if outcome is None:
            # Everything was seen before `after`.
            async for _ in self._read(0):
                pass
            outcome = self._outcome()
        if outcome is None:
            raise ConnectionFailed("the run has no end yet")
        return outcome

    async def text(self) -> str:
        """Waits for the answer. A run that failed is an error."""
        outcome = await self.result()
        if outcome.status == "failed":
            error: Mapping[str, str] = outcome.error or {}  # type: ignore[assignment]
            raise RunFailed(error.get("code") or "failed", 0, error.get("message") or "the run has failed")
        return outcome.text

    def _outcome(self) -> RunOutcome | None:
        message = next((one for one in self.state.messages if one.key == self.id), None)
        if message is None or not is_over(message.status):
            return None
        shown = {field.name: getattr(message, field.name) for field in fields(ShownMessage)}
        return RunOutcome(**{**shown, "run_id": self.id}, thread_id=self.thread_id)

    async def cancel(self) -> schema.RunView:
        """Ends the run as ``cancelled``. Its text so far is kept."""
        request = Request("POST", fill("/v1/runs/{run}/cancel", run=self.id))
        return await self._http.json(request)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Stops reading the first answer. The run goes on."""
        first, self._first = self._first, None
        if first is not None:
            await first.aclose()

    async def __aenter__(self) -> AsyncRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _RunFeed(AsyncFeed[RondoEvent]):
    def __init__(self, run: AsyncRun, after: int) -> None:
        self._run = run
        self._last = after

    async def open(self) -> httpx.Response | None:
        run = self._run
        first, run._first = run._first, None
        if first is not None:
            if self._last == 0:
                return first
            await first.aclose()
        headers = {"last-event-id": str(self._last)} if self._last else {}
        request = Request("GET", fill("/v1/runs/{run}/events", run=run.id), headers=headers)
        response = await run._http.attempt(request, is_stream=True)
        if response.status_code != 204:
            return response
        await response.aclose()
        return None

    async def read(self, frame: Frame) -> RondoEvent | None:
        event = parsed(frame)
        if event is None or (event.seq <= self._last and event.type != "snapshot"):
            return None
        self._last = event.seq
        return event

    def is_last(self, item: RondoEvent) -> bool:
        if item.type == "run:end":
            return item.data["runId"] == self._run.id
        return item.type == "snapshot" and is_over(item.data["status"])
