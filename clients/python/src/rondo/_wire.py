"""What a request is made of, and how long to wait before another try. Nothing here does IO."""

from __future__ import annotations

import json
import mimetypes
import os
import random
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Union
from urllib.parse import quote, urlencode

from ._errors import RondoError

#: Seconds that an answer may take to begin.
ANSWER_SECONDS = 120.0
#: Seconds to connect.
CONNECT_SECONDS = 10.0
#: Seconds of silence after which a stream counts as lost. The server breaks the silence every 15 seconds.
SILENCE_SECONDS = 45.0
#: Seconds after which a stream counts as a good one, even if nothing happened on it.
STEADY_SECONDS = 10.0
#: Seconds of the first pause before another try, and of the longest; the pauses between them double.
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
#: Tries of a request that is not a stream.
TRIES = 5
#: How often in a row a stream may fail to connect.
RETRIES = 10
#: The longest ``Retry-After``, in seconds, that a request waits by itself.
LONGEST_RETRY_AFTER = 30.0
#: Bytes of an answer that is not a stream.
MAX_ANSWER_BYTES = 256 * 1024 * 1024

Content = Union[bytes, str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Options:
    """How a client reaches its server."""

    base_url: str
    key: str | None = None
    token: Callable[[], Any] | None = None
    user: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retries: int = RETRIES


@dataclass(frozen=True)
class Request:
    """A request that can be sent again as it is."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    #: Bytes and text are sent as they are; anything else is sent as JSON.
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None

    def url(self, base_url: str) -> str:
        return base_url.rstrip("/") + self.path + search(self.query)

    def content(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        text = self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False, allow_nan=False)
        return text.encode()

    def header_fields(self, options: Options, token: str | None) -> dict[str, str]:
        fields = {name.lower(): value for name, value in {**options.headers, **self.headers}.items()}
        if token:
            fields["authorization"] = f"Bearer {token}"
        if options.user:
            fields["x-rondo-user"] = options.user
        if self.idempotency_key:
            fields["idempotency-key"] = self.idempotency_key
        if self.body is not None and not isinstance(self.body, (bytes, str)):
            fields["content-type"] = "application/json"
        return fields


def fresh_key() -> str:
    """An idempotency key that no other request has."""
    return secrets.token_hex(16)


def jitter(failures: int) -> float:
    """A random pause, of which the longest doubles with every failure (exponential back-off with full jitter)."""
    return random.random() * min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 30))


def pause_before_retry(error: RondoError, failures: int, tries: int) -> float | None:
    """Seconds to wait before a failed request is sent again; None if it is not."""
    wait = error.retry_after or 0.0
    if not error.is_passing or wait > LONGEST_RETRY_AFTER or failures + 1 >= tries:
        return None
    return wait + jitter(failures)


def fill(template: str, /, **names: str) -> str:
    """Fills ``{names}`` into a path. The rest of a path may have slashes."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return quote(names[name], safe="/" if name == "path" else "")

    return re.sub(r"\{(\w+)\}", value, template)


def search(query: Mapping[str, Any] | None) -> str:
    """The query of a URL. Entries without a value are left out."""
    given = [(name, _word(value)) for name, value in (query or {}).items() if value is not None]
    return "?" + urlencode(given) if given else ""


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def without_none(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def upload(content: Content, name: str | None, media_type: str | None) -> tuple[bytes, str | None, str]:
    """The bytes, the name and the media type of a file to upload. A path gives its name."""
    if isinstance(content, str):
        raw = content.encode()
    elif isinstance(content, bytes):
        raw = content
    else:
        raw = Path(content).read_bytes()
        name = name or Path(content).name
    guessed = mimetypes.guess_type(name)[0] if name else None
    return raw, name, media_type or guessed or "application/octet-stream"
