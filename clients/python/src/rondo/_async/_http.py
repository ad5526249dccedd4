# The synchronous form of this file is made by scripts/unasync.py.
"""Makes requests: one attempt, or as many as it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx

from .._errors import ConnectionFailed, RondoError, TooLarge, api_error
from .._wire import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    MAX_ANSWER_BYTES,
    SILENCE_SECONDS,
    TRIES,
    Options,
    Request,
    fresh_key,
    pause_before_retry,
)
from ._waits import pause, resolved


class AsyncHttp:
    """The connections of a client."""

    def __init__(self, options: Options, client: httpx.AsyncClient | None) -> None:
        self.options = options
        self._owns_client = client is None
        self._client = client or httpx.AsyncClient()

    async def close(self) -> None:
        if self._owns_client:
            await self._client.aclose()

    async def attempt(self, request: Request, *, is_stream: bool = False) -> httpx.Response:
        """Makes one attempt. The answer is a good one, and its body is not read yet."""
        options = self.options
        token = options.key or (await resolved(options.token()) if options.token else None)
        fields = request.header_fields(options, token)
        if is_stream:
            fields.update({"accept": "text/event-stream", "accept-encoding": "identity"})
        patience = SILENCE_SECONDS if is_stream else ANSWER_SECONDS
        made = self._client.build_request(
            request.method,
            request.url(options.base_url),
            content=request.content(),
            headers=fields,
            timeout=httpx.Timeout(patience, connect=CONNECT_SECONDS),
        )
        try:
            response = await self._client.send(made, stream=True)
        except httpx.TransportError as error:
            raise ConnectionFailed("the server cannot be reached") from error
        if response.is_success:
            return response
        raise api_error(response.status_code, response.headers, await self.body(response))

    async def send(self, request: Request, *, tries: int = TRIES, is_stream: bool = False) -> httpx.Response:
        """Sends a request until it is answered. What changes something carries one key for all attempts.

        The answer is read to its end, unless it is a stream.
        """
        if request.method != "GET" and request.idempotency_key is None:
            request = replace(request, idempotency_key=fresh_key())
        failures = 0
        while True:
            try:
                response = await self.attempt(request, is_stream=is_stream)
                return response if is_stream else await self._whole(response)
            except RondoError as error:
                wait = pause_before_retry(error, failures, tries)
                if wait is None:
                    raise
            await pause(wait)
            failures += 1

    async def _whole(self, response: httpx.Response) -> httpx.Response:
        content = await self.body(response)
        kind = response.headers.get("content-type", "")
        return httpx.Response(response.status_code, headers={"content-type": kind}, content=content)

    async def json(self, request: Request, *, tries: int = TRIES) -> Any:
        """Sends a request. The answer is JSON, or nothing."""
        response = await self.send(request, tries=tries)
        if not response.content:
            return None
        try:
            return json.loads(response.content)
        except ValueError as error:
            raise RondoError("not_json", response.status_code, "the answer is not JSON") from error

    async def body(self, response: httpx.Response) -> bytes:
        """Reads a body that has a bound, and closes the answer."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise TooLarge("answer_too_large", response.status_code, "an answer of the server is too large")
                pieces.append(piece)
        except httpx.TransportError as error:
            raise ConnectionFailed("the connection was lost") from error
        finally:
            await response.aclose()
        return b"".join(pieces)
