"""Parts that do no IO: the decoder of events, schemas of tools, pauses, errors, and the files that are made."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, Literal, Optional

from rondo import RateLimited, RondoError, tool
from rondo._errors import api_error, retry_seconds
from rondo._sse import Frame, SseDecoder
from rondo._tools import declared, named
from rondo._wire import LONGEST_PAUSE, fill, jitter, pause_before_retry, search

ROOT = Path(__file__).parent.parent

TEXT = (
    ": hello\nretry: 700\n\nevent: text:delta\nid: 7\ndata: {\"a\":\"é€\"}\n\ndata: one\ndata:two\r\ndata\r\n\r\n"
    "\rid: 9\rdata: x\r\revent: none\n\nid: 12\n\nretry: 999999999999\n"
)
FRAMES = [
    Frame(retry=700),
    Frame("text:delta", '{"a":"é€"}', "7"),
    Frame("", "one\ntwo\n"),
    Frame("", "x", "9"),
    Frame("", "", "12"),
]


class DecoderTest(unittest.TestCase):
    def test_events_are_read_however_they_are_cut_into_pieces(self) -> None:
        raw = TEXT.encode()
        for size in range(1, len(raw) + 1):
            decoder, frames = SseDecoder(), []
            for at in range(0, len(raw), size):
                frames += decoder.feed(raw[at : at + size])
            self.assertEqual(frames, FRAMES, f"in pieces of {size}")

    def test_an_event_that_never_ends_is_refused(self) -> None:
        decoder, piece = SseDecoder(), b"data: " + b"x" * (1 << 20) + b"\n"
        with self.assertRaises(RondoError) as caught:
            for _ in range(100):
                decoder.feed(piece)
        self.assertEqual(caught.exception.code, "event_too_large")


class ToolTest(unittest.TestCase):
    def test_a_signature_is_a_schema(self) -> None:
        def plan(
            city: str,
            days: int,
            kinds: list[str],
            pace: Literal["slow", "fast"] = "slow",
            budget: Optional[float] = None,
            more: dict[str, Any] | None = None,
        ) -> None:
            """Plans a trip."""

        (made,) = declared(named([plan]))
        self.assertEqual(made["name"], "plan")
        self.assertEqual(made["description"], "Plans a trip.")
        self.assertEqual(
            made["parameters"],
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "kinds": {"type": "array", "items": {"type": "string"}},
                    "pace": {"enum": ["slow", "fast"]},
                    "budget": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    "more": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                },
                "additionalProperties": False,
                "required": ["city", "days", "kinds"],
            },
        )

    def test_a_tool_may_have_a_schema_of_its_own_and_needs_a_name_of_its_own(self) -> None:
        @tool(name="other", description="Says it.", parameters={"type": "object"})
        def say(words: object) -> None: ...

        self.assertEqual(
            declared(named([say])), [{"name": "other", "description": "Says it.", "parameters": {"type": "object"}}]
        )
        self.assertEqual(declared(named({"ask_user": lambda question: ""})), [], "the app has declared it")
        with self.assertRaises(ValueError):
            named([say, say])
        with self.assertRaises(TypeError):
            tool(lambda: None) and tool(_unknown)


def _unknown(path: Path) -> None: ...


class WireTest(unittest.TestCase):
    def test_names_in_paths_and_queries_cannot_leave_their_place(self) -> None:
        self.assertEqual(fill("/v1/apps/{app}/runs", app="a/../b?c"), "/v1/apps/a%2F..%2Fb%3Fc/runs")
        self.assertEqual(fill("/files/{path}", path="trips/my plan.md"), "/files/trips/my%20plan.md")
        self.assertEqual(search({"a": None, "b": True, "c": "x&y"}), "?b=true&c=x%26y")
        self.assertEqual(search({"a": None}), "")

    def test_pauses_grow_and_have_an_end(self) -> None:
        for failures in range(40):
            self.assertTrue(0 <= jitter(failures) <= min(LONGEST_PAUSE, 0.25 * 2**failures))
        busy = RondoError("unavailable", 503, "busy", retry_after=31)
        self.assertIsNone(pause_before_retry(busy, 0, 5), "a long wait is the caller's")
        self.assertGreaterEqual(pause_before_retry(RondoError("x", 503, "x", retry_after=3), 0, 5) or 0, 3)
        self.assertIsNone(pause_before_retry(RondoError("x", 503, "x"), 4, 5))
        for status in (400, 409, 429, 501, 507):
            self.assertIsNone(pause_before_retry(RondoError("x", status, "x"), 0, 5), str(status))

    def test_errors_are_read_from_whatever_was_answered(self) -> None:
        self.assertIsInstance(api_error(429, {}, b"[]"), RateLimited)
        self.assertEqual(api_error(418, {"retry-after": "5"}, b"<html>").code, "http_418")
        made = api_error(400, {}, b'{"code":"c","errors":[{"field":"f","message":"m"},3]}')
        self.assertEqual((made.code, made.errors), ("c", [{"field": "f", "message": "m"}]))
        self.assertEqual(retry_seconds("Wed, 21 Oct 2015 07:28:00 GMT"), 0.0)
        self.assertIsNone(retry_seconds("soon"))


class MadeFilesTest(unittest.TestCase):
    def test_the_synchronous_half_is_what_the_script_makes(self) -> None:
        command = [sys.executable, str(ROOT / "scripts" / "unasync.py"), "--check"]
        checked = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)
