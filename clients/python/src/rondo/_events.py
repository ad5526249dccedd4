"""Events of a run, of a thread and of the user channel, with a type for the body of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Generic, Literal, TypeVar, Union

from . import schema
from ._sse import Frame

Kind = TypeVar("Kind", bound=str)
Body = TypeVar("Body")


@dataclass(frozen=True)
class Event(Generic[Kind, Body]):
    """One event of a thread's log. A comparison of ``type`` tells type checkers what ``data`` holds."""

    #: Such as ``text:delta``. Future servers will add more: ignore those that you do not know.
    type: Kind
    #: The number of the event in the log of its thread.
    seq: int
    #: The body, with the names of the API.
    data: Body
    #: The thread, if the user channel has brought the event.
    thread_id: str | None = None
    #: The run, if the user channel has brought the event and it belongs to a run.
    run_id: str | None = None


RondoEvent = Union[
    Event[Literal["message:user"], schema.MessageUser],
    Event[Literal["run:start"], schema.RunStart],
    Event[Literal["context:loaded"], schema.ContextLoaded],
    Event[Literal["source"], schema.Source],
    Event[Literal["step:start"], schema.StepStart],
    Event[Literal["text:delta"], schema.TextDelta],
    Event[Literal["reasoning:delta"], schema.ReasoningDelta],
    Event[Literal["tool:input"], schema.ToolInput],
    Event[Literal["step:retry"], schema.StepRetry],
    Event[Literal["step:reset"], schema.StepReset],
    Event[Literal["step:end"], schema.StepEnd],
    Event[Literal["tool:start"], schema.ToolStart],
    Event[Literal["tool:complete"], schema.ToolComplete],
    Event[Literal["proposal:open"], schema.ProposalOpen],
    Event[Literal["proposal:closed"], schema.ProposalClosed],
    Event[Literal["call:open"], schema.CallOpen],
    Event[Literal["stream:complete"], schema.StreamComplete],
    Event[Literal["run:end"], schema.RunEnd],
    Event[Literal["thread:named"], schema.ThreadNamed],
    Event[Literal["thread:head"], schema.ThreadHead],
    Event[Literal["thread:changed"], schema.ThreadChanged],
    Event[Literal["memory:update"], schema.MemoryUpdate],
    Event[Literal["summary"], schema.Summary],
    # Sent, never stored: the current state of a run, for a reader whose last event is not in the log.
    Event[Literal["snapshot"], schema.Snapshot],
]


@dataclass(frozen=True)
class Notice(Generic[Kind, Body]):
    """Something of the user has changed."""

    type: Kind
    #: The number of the notice for this user.
    id: int
    data: Body


RondoNotice = Union[
    Notice[Literal["notice:thread"], schema.ThreadNotice],
    Notice[Literal["notice:run"], schema.RunNotice],
    Notice[Literal["notice:proposal"], schema.ProposalNotice],
    Notice[Literal["notice:call"], schema.CallNotice],
    Notice[Literal["notice:memory"], schema.MemoryNotice],
    Notice[Literal["notice:document"], schema.DocumentNotice],
    # Notices were missed: read everything again.
    Notice[Literal["resync"], Dict[str, Any]],
]

#: The user channel brings notices and the events of followed threads. ``isinstance(event, Notice)`` tells them apart.
ChannelEvent = Union[RondoEvent, RondoNotice]


def parsed(frame: Frame) -> RondoEvent | None:
    """A frame of a run or of a thread's channel as an event."""
    if not frame.event or frame.id is None or not frame.id.isdecimal():
        return None
    made: Any = Event(frame.event, int(frame.id), json.loads(frame.data))
    return made  # type: ignore[no-any-return]


def is_over(status: str | None) -> bool:
    """Whether a run with this status has ended."""
    return status is not None and status not in ("queued", "running", "waiting")
