"""Errors of the client. Each has a stable code, the HTTP status and a sentence for people."""

from __future__ import annotations

import json
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any, Mapping


class RondoError(Exception):
    """A request, a stream or a run did not work. The server's table of errors has the codes."""

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        *,
        retry_after: float | None = None,
        request_id: str | None = None,
        errors: list[dict[str, str]] | None = None,
    ) -> None:
        super().__init__(detail)
        #: A stable word, such as ``thread_busy``. The client's own are ``connection_failed``, ``event_too_large`` and
        #: ``answer_too_large``.
        self.code = code
        #: The HTTP status; 0 if there was no answer, or if a run failed after it was accepted.
        self.status = status
        #: A sentence for people.
        self.detail = detail
        #: Seconds to wait before another try, if the server says so.
        self.retry_after = retry_after
        #: Names the request in the server's log.
        self.request_id = request_id
        #: The fields that are wrong: ``{"field": …, "message": …}``.
        self.errors = errors or []

    @property
    def is_passing(self) -> bool:
        """Whether the same request may work a little later."""
        return self.code == "connection_failed" or (self.status >= 500 and self.status not in (501, 507))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {self.status}, {self.detail!r})"


class ConnectionFailed(RondoError):
    """The server could not be reached, or the connection was lost too often."""

    def __init__(self, detail: str) -> None:
        super().__init__("connection_failed", 0, detail)


class TooLarge(RondoError):
    """The server has sent more than this client takes."""


class RunFailed(RondoError):
    """A run was accepted and has failed. ``code`` says why, such as ``provider_auth``."""


class ApiError(RondoError):
    """The server has refused a request, or could not answer it."""


class InvalidRequest(ApiError):
    """400, 413, 415 or 422: the request itself is wrong. ``errors`` names the fields."""


class Unauthorized(ApiError):
    """401 or 403: the key or the token is missing, wrong, or not enough."""


class NotFound(ApiError):
    """404: there is no such thing, or it is not yours."""


class Conflict(ApiError):
    """409 or 412: the thing has changed, is busy, or was decided before."""


class RateLimited(ApiError):
    """429: too many requests. ``retry_after`` says when to come again."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: RateLimited,
}


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Reads a problem document, or any other answer of a proxy."""
    try:
        problem: Any = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered with status {status}")
    errors = problem.get("errors")
    request_id = problem.get("requestId") or headers.get("x-request-id")
    return _BY_STATUS.get(status, ApiError)(
        str(problem.get("code") or f"http_{status}"),
        status,
        detail,
        retry_after=retry_seconds(headers.get("retry-after")),
        request_id=str(request_id) if request_id else None,
        errors=[one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else None,
    )


def retry_seconds(header: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, which holds a number or a date."""
    if not header:
        return None
    if re.fullmatch(r"\d{1,9}", header):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
