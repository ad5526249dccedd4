"""Runs the calls of tools while a run is read: one after another in the thread of the reader, and each once."""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from .. import schema
from .._errors import RondoError
from .._tools import ClientTool, error_words


class CallDesk(Protocol):
    """What answers calls: the client."""

    def call(self, call_id: str) -> schema.ClientCallView: ...

    def answer_patiently(self, call_id: str, body: Mapping[str, Any]) -> object: ...


class CallRunner:
    """The calls of one run."""

    def __init__(self, desk: CallDesk, tools: Mapping[str, ClientTool]) -> None:
        self._desk = desk
        self._tools = tools
        self._begun: set[str] = set()
        self._waiting: list[tuple[ClientTool, schema.CallOpen]] = []

    def begin(self, call: schema.CallOpen) -> None:
        """Notes a call if its tool is known here."""
        tool = self._tools.get(call["name"])
        if tool is None or call["callId"] in self._begun:
            return
        self._begun.add(call["callId"])
        self._waiting.append((tool, call))

    def settle(self) -> None:
        """Makes the calls that were noted. A failed answer is no failure of the stream that told of the call."""
        while self._waiting:
            tool, call = self._waiting.pop(0)
            try:
                make_call(self._desk, tool, call)
            except RondoError:
                self._begun.discard(call["callId"])
            except BaseException:
                self._begun.discard(call["callId"])
                raise

    def close(self) -> None:
        """Forgets calls that were not made: the run has no reader any more."""
        for _, call in self._waiting:
            self._begun.discard(call["callId"])
        self._waiting.clear()


def make_call(desk: CallDesk, tool: ClientTool, call: schema.CallOpen) -> None:
    # A stream that is read again also tells of calls that were answered long ago.
    if desk.call(call["callId"])["status"] != "open":
        return
    body: dict[str, Any]
    try:
        if not isinstance(call["input"], dict):
            raise ValueError("the arguments are not an object")
        body = {"result": tool.run(**call["input"])}
    except Exception as error:
        body = {"error": error_words(error)}
    try:
        desk.answer_patiently(call["callId"], body)
    except (RondoError, TypeError, ValueError) as error:
        if isinstance(error, RondoError) and not 400 <= error.status < 500:
            raise
        # The server does not take this result, such as one that is too large. The model is told, and the run goes on.
        desk.answer_patiently(call["callId"], {"error": error_words(error)})
