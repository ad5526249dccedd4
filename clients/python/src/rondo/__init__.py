"""The client of Rondo, an agent server: typed events, resume, approvals, client tools, uploads.

``Rondo`` blocks, and ``AsyncRondo`` is for asyncio. Both have the same methods.
"""

from . import schema
from ._async._channel import AsyncUserChannel
from ._async._client import AsyncApp, AsyncFiles, AsyncListing, AsyncRecords, AsyncRondo, AsyncThread
from ._async._run import AsyncRun
from ._errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    NotFound,
    RateLimited,
    RondoError,
    RunFailed,
    TooLarge,
    Unauthorized,
)
from ._events import ChannelEvent, Event, Notice, RondoEvent, RondoNotice
from ._fold import EMPTY, Conversation, RunOutcome, ShownCall, ShownMessage, ShownStep, fold, loaded
from ._sync._channel import UserChannel
from ._sync._client import App, Files, Listing, Records, Rondo, Thread
from ._sync._run import Run
from ._tools import ClientTool, tool

__all__ = [
    "EMPTY",
    "ApiError",
    "App",
    "AsyncApp",
    "AsyncFiles",
    "AsyncListing",
    "AsyncRecords",
    "AsyncRondo",
    "AsyncRun",
    "AsyncThread",
    "AsyncUserChannel",
    "ChannelEvent",
    "ClientTool",
    "Conflict",
    "ConnectionFailed",
    "Conversation",
    "Event",
    "Files",
    "InvalidRequest",
    "Listing",
    "NotFound",
    "Notice",
    "RateLimited",
    "Records",
    "Rondo",
    "RondoError",
    "RondoEvent",
    "RondoNotice",
    "Run",
    "RunFailed",
    "RunOutcome",
    "ShownCall",
    "ShownMessage",
    "ShownStep",
    "Thread",
    "TooLarge",
    "Unauthorized",
    "UserChannel",
    "fold",
    "loaded",
    "schema",
    "tool",
]
