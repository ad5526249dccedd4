# The synchronous form of this file is made by scripts/unasync.py.
"""Reads a stream over one connection after another."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import AsyncGenerator, Generic, TypeVar

import httpx

from .._errors import ConnectionFailed, RondoError
from .._sse import Frame, SseDecoder
from .._wire import STEADY_SECONDS, jitter
from ._http import AsyncHttp
from ._waits import pause

Item = TypeVar("Item")


class AsyncFeed(Generic[Item]):
    """What is read: how to connect, and how to understand a frame."""

    async def open(self) -> httpx.Response | None:
        """Connects, to read after the last event that was read. None means that there is no more."""
        raise NotImplementedError

    async def read(self, frame: Frame) -> Item | None:
        """Understands a frame. None means that it was seen before, or that it is not for the reader."""
        raise NotImplementedError

    def is_last(self, item: Item) -> bool:
        return False

    def wants_reopen(self) -> bool:
        """Whether the connection is to be made again now, without a pause."""
        return False


async def follow(http: AsyncHttp, feed: AsyncFeed[Item]) -> AsyncGenerator[Item, None]:
    """Reads a feed to its end.

    A lost connection is made again, after a pause that grows and has a random length. A refusal (4xx) ends it with an
    error, except 429: the server may not know yet that the last connection is gone.
    """
    asked = 0.0  # seconds
    failures = 0
    while True:
        response: httpx.Response | None = None
        opened: float | None = None
        after = 0.0  # seconds
        lost: RondoError | None = None
        is_reopened = False
        try:
            response = await feed.open()
            if response is None:
                return
            opened = time.monotonic()
            async with aclosing(_frames(response)) as frames:
                async for frame in frames:
                    if frame is not None and frame.retry is not None:
                        asked = frame.retry / 1000
                        continue
                    if frame is not None and frame.event == "access:ended":
                        break  # the next attempt authenticates again, or is refused
                    item = await feed.read(frame) if frame is not None else None
                    if item is not None:
                        failures = 0
                        yield item
                        if feed.is_last(item):
                            return
                    is_reopened = feed.wants_reopen()
                    if is_reopened:
                        break
        except RondoError as error:
            if not error.is_passing and error.status != 429:
                raise
            after = error.retry_after or 0.0
            lost = error
        finally:
            if response is not None:
                await response.aclose()
        if is_reopened:
            continue
        if opened is not None and time.monotonic() - opened > STEADY_SECONDS:
            failures = 0
        if failures >= http.options.retries:
            if lost is not None and lost.status:
                raise lost
            raise ConnectionFailed(f"the connection was lost {failures + 1} times in a row") from lost
        await pause(max(asked, after) + jitter(failures))
        failures += 1


async def _frames(response: httpx.Response) -> AsyncGenerator[Frame | None, None]:
    """The frames of an answer, and None after each piece of it."""
    decoder = SseDecoder()
    try:
        async for piece in response.aiter_bytes():
            for frame in decoder.feed(piece):
                yield frame
            yield None
    except httpx.TransportError as error:
        raise ConnectionFailed("the connection was lost") from error
