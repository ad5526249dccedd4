"""Folds the logs in ``clients/vectors``, as the tests of the server and of the TypeScript client do."""

from __future__ import annotations

import copy
import json
import unittest
from pathlib import Path
from typing import Any, Iterable

from rondo import EMPTY, Conversation, Event, fold, loaded

FOLDER = Path(__file__).parent.parent.parent / "vectors"
VECTORS = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
DELTAS = ("text:delta", "reasoning:delta", "tool:input")


def events(vector: dict[str, Any]) -> list[Event[str, Any]]:
    return [Event(one["type"], one["seq"], one["data"]) for one in vector["log"]]


def folded(log: Iterable[Event[str, Any]], start: Conversation = EMPTY) -> Conversation:
    for event in log:
        start = fold(start, event)
    return start


def told(page: Conversation, log: list[Event[str, Any]]) -> dict[str, Any] | None:
    """A page as the server's own fold tells of the newest run."""
    start = next((event for event in reversed(log) if event.type == "run:start"), None)
    if start is None:
        return {}
    message = next((one for one in page.messages if one.key == start.data["runId"]), None)
    if message is None:
        return None
    words = {"proposed": "waiting", "open": "waiting", "running": "pending"}
    calls = [call for step in message.steps if step.finish is not None for call in step.calls]
    return {
        "runId": message.run_id,
        "status": message.status,
        "text": message.text,
        "messageId": message.id,
        "error": message.error["code"] if message.error else None,
        "calls": [{"id": call.id, "status": words.get(call.status, call.status)} for call in calls],
    }


class FoldTest(unittest.TestCase):
    def test_there_are_vectors(self) -> None:
        self.assertGreaterEqual(len(VECTORS), 5)

    def test_a_page_shows_at_every_event_what_the_server_says_of_the_run(self) -> None:
        for name, vector in VECTORS.items():
            log, page = events(vector), EMPTY
            self.assertEqual(len(vector["cuts"]), len(log))
            for index, (event, cut) in enumerate(zip(log, vector["cuts"])):
                page = fold(page, event)
                self.assertEqual((page.seq, cut["seq"]), (event.seq, event.seq))
                expected = {key: value for key, value in cut.items() if key not in ("seq", "steps")}
                seen = told(page, log[: index + 1])
                if seen is None:
                    # A message that begins a branch takes the place of the answers after its parent.
                    self.assertEqual(event.type, "message:user")
                    continue
                # The server learns of an answer that no model wrote when it is complete; a page shows it at once.
                is_prepared = (
                    event.type == "text:delta"
                    and seen["text"] == event.data["delta"]
                    and expected["text"] != seen["text"]
                )
                seen = {**seen, "text": expected["text"]} if is_prepared else seen
                self.assertEqual(seen, expected, f"{name} after event {event.seq}")

    def test_the_whole_log_is_the_messages_that_the_server_lists(self) -> None:
        for name, vector in VECTORS.items():
            page = folded(events(vector))
            self.assertEqual(
                (page.stale, page.status, page.run_id, page.proposals, page.calls), (False, "idle", None, (), ())
            )
            stored = [message for message in page.messages if message.id]
            self.assertEqual(
                [(one.id, one.role, one.text, one.parent_id) for one in stored],
                [(one["id"], one["role"], one["text"], one["parentId"]) for one in vector["messages"]],
                name,
            )
            for message, listed in zip(stored, vector["messages"]):
                calls = [call for step in message.steps for call in step.calls]
                self.assertEqual(
                    [(call.id, call.name, call.input) for call in calls],
                    [(call["id"], call["name"], call["input"]) for call in listed["toolCalls"]],
                )
                outputs = {call.id: (call.output, call.status == "complete") for call in calls}
                for result in listed["toolResults"]:
                    self.assertEqual(outputs[result["callId"]], (result["result"], result["success"]))
                self.assertEqual(message.siblings, listed.get("siblings"), f"the siblings of {message.id}")

    def test_events_that_come_twice_or_again_from_an_earlier_place_change_nothing(self) -> None:
        for name, vector in VECTORS.items():
            log = events(vector)
            expected = folded(log)
            self.assertEqual(folded(event for event in log for _ in range(2)), expected)
            for cut in range(len(log) + 1):
                page = folded(log[:cut])
                self.assertEqual(folded(log[:cut], page), page, f"{name} again after {cut}")
                self.assertEqual(folded(log[max(0, cut - 3) :], page), expected, f"{name} resumed before {cut}")

    def test_a_log_without_deltas_is_the_same_in_the_end(self) -> None:
        for vector in VECTORS.values():
            log = events(vector)
            page = folded(event for event in log if event.type not in DELTAS)
            self.assertEqual(page.messages, folded(log).messages)

    def test_events_and_states_are_never_changed(self) -> None:
        for vector in VECTORS.values():
            log = events(vector)
            before, page = copy.deepcopy(log), EMPTY
            for event in log:
                last, kept = page, copy.deepcopy(page)
                page = fold(page, event)
                self.assertEqual(last, kept)
            self.assertEqual(log, before)
        self.assertEqual(EMPTY, Conversation())

    def test_a_snapshot_stands_for_the_events_that_are_gone(self) -> None:
        log = events(VECTORS["tools.json"])
        start = next(event for event in log if event.type == "run:start").data
        data = {"runId": start["runId"], "threadId": start["threadId"], "status": "running", "text": "It is"}
        page = fold(folded(log[:8]), Event("snapshot", 3, data))
        self.assertEqual((page.seq, page.status, page.stale, page.messages[-1].text), (3, "running", True, "It is"))
        over = fold(page, Event("snapshot", 3, {**data, "status": "completed", "messageId": "msg_9"}))
        self.assertEqual((over.status, over.run_id, over.messages[-1].id), ("idle", None, "msg_9"))
        alone = fold(EMPTY, Event("snapshot", 3, data))
        self.assertEqual((len(alone.messages), alone.thread_id), (1, start["threadId"]))

    def test_events_that_a_client_does_not_know_are_ignored_and_unknown_parents_are_told(self) -> None:
        self.assertEqual(fold(EMPTY, Event("no:such", 4, {"x": 1})), Conversation(seq=4))
        known = fold(EMPTY, Event("message:user", 1, {"messageId": "a", "parentId": None, "text": "A"}))
        lost = fold(known, Event("message:user", 2, {"messageId": "c", "parentId": "b", "text": "C"}))
        self.assertTrue(lost.stale)

    def test_a_page_that_is_opened_later_goes_on_from_the_messages_that_there_are(self) -> None:
        for vector in VECTORS.values():
            log = events(vector)
            last = log[-1].seq
            full: list[Any] = [
                {**message, "runId": None, "model": None, "createdAt": "x"} for message in vector["messages"]
            ]
            thread: Any = {"id": vector["thread"], "title": None, "lastSeq": last}
            page = loaded(thread, full)
            data = {"messageId": "n", "parentId": full[-1]["id"], "text": "New"}
            after = fold(page, Event("message:user", last + 1, data))
            self.assertEqual((len(after.messages), after.stale), (len(full) + 1, False))
            self.assertEqual(folded(log, page).messages, page.messages, "what was there before changes nothing")
