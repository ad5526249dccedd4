"""Decodes server-sent events, however they are cut into pieces."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from ._errors import TooLarge

#: Bytes of one event. Events of the server are much smaller.
MAX_EVENT_BYTES = 64 * 1024 * 1024

#: The longest pause, in milliseconds, that a ``retry:`` line can ask for.
MAX_RETRY_MS = 60_000


@dataclass(frozen=True)
class Frame:
    """One event on the wire, or the pause that the server asks for."""

    event: str = ""
    data: str = ""
    id: str | None = None
    #: Milliseconds.
    retry: int | None = None


class SseDecoder:
    """Takes bytes and gives frames. It keeps at most one event."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line: list[str] = []
        self._ended_with_cr = False
        self._size = 0
        self._event = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[Frame]:
        """Returns the frames that are complete with this piece."""
        frames: list[Frame] = []
        text = self._decoder.decode(data)
        self._size += len(data)
        if self._ended_with_cr and text.startswith("\n"):
            text = text[1:]
            self._ended_with_cr = False
        if text:
            self._ended_with_cr = text.endswith("\r")
        *lines, rest = re.split(r"\r\n|\n|\r", text)
        for line in lines:
            self._line.append(line)
            self._take("".join(self._line), frames)
            self._line.clear()
        if rest:
            self._line.append(rest)
        if self._size > MAX_EVENT_BYTES:
            raise TooLarge("event_too_large", 0, "an event of the server is too large")
        return frames

    def _take(self, line: str, frames: list[Frame]) -> None:
        if line == "":
            # A number without data is no event, but it says where the stream is.
            if self._data or self._id is not None:
                frames.append(Frame(self._event, "\n".join(self._data), self._id))
            self._event, self._id, self._data, self._size = "", None, [], 0
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        elif name == "retry" and re.fullmatch(r"[0-9]{1,9}", value):
            frames.append(Frame(retry=min(int(value), MAX_RETRY_MS)))
