# The synchronous form of this file is made by scripts/unasync.py.
"""The channel of the user, and the channel of one thread. Both have no end."""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Callable, Mapping

import httpx

from .._events import ChannelEvent, Event, Notice, RondoEvent, parsed
from .._sse import Frame
from .._wire import Request, fill
from ._http import AsyncHttp
from ._stream import AsyncFeed, follow
from ._waits import resolved


class AsyncUserChannel:
    """Notices about everything that the user has, and the events of followed threads, over one connection."""

    def __init__(
        self,
        http: AsyncHttp,
        *,
        follow: Mapping[str, int] | None,
        after: int | None,
        on_open: Callable[[], Any] | None,
    ) -> None:
        #: The number of the last notice.
        self.after = after
        #: The followed threads, each with the number of the last event that was read.
        self.positions: dict[str, int] = dict(follow or {})
        self._http = http
        self._on_open = on_open
        self._is_changed = False

    def follow(self, thread_id: str, seq: int) -> None:
        """Follows another thread, after this event.

        Inside of the loop, it holds for the next event. From elsewhere, it holds as soon as the server sends something,
        which it does every 15 seconds.
        """
        self.positions[thread_id] = seq
        self._is_changed = True

    def unfollow(self, thread_id: str) -> None:
        """Follows a thread no more."""
        if self.positions.pop(thread_id, None) is not None:
            self._is_changed = True

    def __aiter__(self) -> AsyncIterator[ChannelEvent]:
        return follow(self._http, _ChannelFeed(self))

    async def _open(self) -> httpx.Response:
        self._is_changed = False
        headers = {} if self.after is None else {"last-event-id": str(self.after)}
        followed = ",".join(f"{thread}:{seq}" for thread, seq in self.positions.items())
        request = Request("GET", "/v1/events", query={"follow": followed or None}, headers=headers)
        return await self._http.attempt(request, is_stream=True)

    async def _read(self, frame: Frame) -> ChannelEvent | None:
        data: Any = json.loads(frame.data) if frame.data else None
        if frame.id is None:
            return self._followed(frame.event, data)
        number = int(frame.id)
        on_open, self._on_open = self._on_open, None
        if on_open is not None:
            await resolved(on_open())
        if self.after is not None and number <= self.after and frame.event != "resync":
            return None
        self.after = number
        made: Any = Notice(frame.event, number, data) if frame.event else None
        return made  # type: ignore[no-any-return]

    def _followed(self, kind: str, data: Mapping[str, Any]) -> ChannelEvent | None:
        thread_id, seq = data["threadId"], data["seq"]
        last = self.positions.get(thread_id)
        if last is None or seq <= last:
            return None
        self.positions[thread_id] = seq
        made: Any = Event(kind, seq, data["data"], thread_id, data.get("runId"))
        return made  # type: ignore[no-any-return]


class _ChannelFeed(AsyncFeed[ChannelEvent]):
    def __init__(self, channel: AsyncUserChannel) -> None:
        self._channel = channel

    async def open(self) -> httpx.Response | None:
        return await self._channel._open()

    async def read(self, frame: Frame) -> ChannelEvent | None:
        return await self._channel._read(frame)

    def wants_reopen(self) -> bool:
        return self._channel._is_changed


class AsyncThreadFeed(AsyncFeed[RondoEvent]):
    """The events of all runs of a thread and of the thread itself."""

    def __init__(self, http: AsyncHttp, thread_id: str, after: int) -> None:
        self._http = http
        self._path = fill("/v1/threads/{thread}/events", thread=thread_id)
        self._last = after

    async def open(self) -> httpx.Response | None:
        request = Request("GET", self._path, headers={"last-event-id": str(self._last)})
        return await self._http.attempt(request, is_stream=True)

    async def read(self, frame: Frame) -> RondoEvent | None:
        event = parsed(frame)
        if event is None or event.seq <= self._last:
            return None
        self._last = event.seq
        return event
