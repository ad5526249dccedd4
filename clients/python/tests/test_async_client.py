# The synchronous form of this file is made by scripts/unasync.py.
"""The client against a server that says what it is told to say."""

from __future__ import annotations

import json
import threading
from typing import Any

from rondo import (
    ApiError,
    ClientTool,
    ConnectionFailed,
    Event,
    NotFound,
    RateLimited,
    RondoError,
    RunFailed,
    AsyncRondo,
    AsyncRun,
    tool,
)
from support import EVENTS, RUN, USAGE, Exchange, Received, Script, AsyncTestCase, serve

ALL = [(number, name) for number, name, _ in EVENTS]


async def seen(run: Any) -> list[tuple[int, str]]:
    return [(event.seq, event.type) async for event in run]


def whole(exchange: Exchange, _: Received, __: int) -> None:
    exchange.stream(RUN)
    for one in EVENTS:
        exchange.event(*one)
    exchange.end()


class AsyncClientTest(AsyncTestCase):
    def client(self, script: Script, **options: Any) -> AsyncRondo:
        return AsyncRondo(script.url + "/", **options)

    async def test_a_run_is_a_loop_over_its_events_and_then_it_has_a_text_and_a_result(self) -> None:
        script = serve(self, whole)
        async with self.client(script, key="rondo_secret", user="ann") as rondo:
            run = await rondo.app("a b").run("Hi")
            self.assertEqual(await seen(run), ALL)
            self.assertEqual(await run.text(), "Hello.")
            result = await run.result()
            self.assertEqual(
                (result.status, result.text, result.id, result.run_id, result.thread_id, run.id, run.thread_id),
                ("completed", "Hello.", "msg_2", "run_1", "thr_1", "run_1", "thr_1"),
            )
        (request,) = script.requests  # what was read is not read again
        self.assertEqual((request.method, request.url), ("POST", "/v1/apps/a%20b/runs"))
        self.assertEqual(json.loads(request.body), {"message": "Hi"})
        self.assertEqual(request.headers["authorization"], "Bearer rondo_secret")
        self.assertEqual(request.headers["x-rondo-user"], "ann")
        self.assertRegex(request.headers["idempotency-key"], "^[0-9a-f]{32}$")

    async def test_a_lost_connection_is_made_again_after_the_last_event_at_every_place(self) -> None:
        for cut in range(len(EVENTS)):

            def answer(exchange: Exchange, request: Received, _: int, cut: int = cut) -> None:
                exchange.stream(RUN)
                after = int(request.headers.get("last-event-id", "0"))
                is_first = request.method == "POST"
                # The server sends one event again, as a proxy with a buffer might.
                for one in EVENTS[max(0, after - 1) : cut if is_first else len(EVENTS)]:
                    exchange.event(*one)
                if is_first:
                    exchange.write('event: text:delta\nid: 99\ndata: {"half')  # never whole
                    return
                exchange.end()

            script = serve(self, answer)
            async with self.client(script) as rondo:
                run = await rondo.app("a").run("Hi")
                self.assertEqual(await seen(run), ALL, f"cut after {cut}")
                self.assertEqual(run.state.messages[1].text, "Hello.")
            self.assertEqual(script.requests[1].headers.get("last-event-id"), str(cut) if cut else None)
            self.assertEqual(script.requests[1].url, "/v1/runs/run_1/events")

    async def test_a_request_without_an_answer_is_sent_again_under_the_same_key(self) -> None:
        def answer(exchange: Exchange, request: Received, number: int) -> None:
            if number == 0:
                exchange.reset()
            elif number == 1:
                exchange.problem(503, "unavailable", {"retry-after": "0"})
            else:
                whole(exchange, request, number)

        script = serve(self, answer)
        async with self.client(script) as rondo:
            self.assertEqual(await (await rondo.app("a").run("Hi")).text(), "Hello.")
        keys = {request.headers["idempotency-key"] for request in script.requests}
        self.assertEqual((len(script.requests), len(keys)), (3, 1))

    async def test_an_answer_that_breaks_is_asked_for_again_and_not_more_often_than_said(self) -> None:
        def answer(exchange: Exchange, _: Received, number: int) -> None:
            if number < 2:
                exchange.send_response(200)
                exchange.send_header("content-length", "100")
                exchange.end_headers()
                exchange.wfile.write(b'{"half')
            else:
                exchange.json({"userId": "local"})

        script = serve(self, answer)
        async with self.client(script) as rondo:
            self.assertEqual((await rondo.request("GET", "/v1/me"))["userId"], "local")
        self.assertEqual(len(script.requests), 3)
        never = serve(self, lambda exchange, _, __: exchange.reset())
        async with self.client(never) as rondo:
            with self.assertRaises(ConnectionFailed):
                await rondo.request("PATCH", "/v1/me", body={})
        self.assertEqual(len(never.requests), 5)

    async def test_a_refusal_is_an_error_with_everything_that_the_server_says(self) -> None:
        script = serve(self, lambda exchange, _, __: exchange.problem(429, "rate_limited", {"retry-after": "7"}))
        async with self.client(script) as rondo:
            with self.assertRaises(RateLimited) as caught:
                await rondo.app("a").run("Hi")
        error = caught.exception
        self.assertEqual(
            (error.code, error.status, error.detail, error.retry_after, str(error), error.request_id),
            ("rate_limited", 429, "because of rate_limited", 7, "because of rate_limited", "r1"),
        )
        self.assertEqual(len(script.requests), 1, "a refusal is not repeated")

    async def test_what_a_proxy_answers_is_an_error_too(self) -> None:
        def answer(exchange: Exchange, _: Received, __: int) -> None:
            exchange.send_response(404)
            exchange.send_header("content-length", "5")
            exchange.end_headers()
            exchange.wfile.write(b"<nope")

        script = serve(self, answer)
        async with self.client(script) as rondo:
            with self.assertRaises(NotFound) as caught:
                await rondo.thread("thr_1").get()
        self.assertEqual((caught.exception.code, caught.exception.retry_after), ("http_404", None))

    async def test_a_stream_that_is_refused_ends_and_one_that_is_too_much_for_now_waits(self) -> None:
        def answer(exchange: Exchange, _: Received, number: int) -> None:
            if number == 0:
                exchange.problem(429, "too_many_streams", {"retry-after": "0"})
            else:
                exchange.problem(404, "not_found")

        script = serve(self, answer)
        async with self.client(script) as rondo:
            with self.assertRaises(NotFound):
                await seen(rondo.resume("run_1", 3))
        self.assertEqual([request.headers["last-event-id"] for request in script.requests], ["3", "3"])

    async def test_a_server_that_is_gone_is_given_up_after_a_bounded_number_of_attempts(self) -> None:
        script = serve(self, lambda exchange, _, __: exchange.reset())
        async with self.client(script, retries=2) as rondo:
            with self.assertRaises(ConnectionFailed) as caught:
                await seen(rondo.resume("run_1"))
        self.assertEqual((caught.exception.code, caught.exception.status), ("connection_failed", 0))
        self.assertEqual(len(script.requests), 3)

    async def test_a_run_that_failed_is_a_result_and_its_text_is_an_error(self) -> None:
        def answer(exchange: Exchange, _: Received, __: int) -> None:
            exchange.stream(RUN)
            for one in EVENTS[:4]:
                exchange.event(*one)
            error = {"code": "provider_auth", "message": "the key is wrong"}
            exchange.event(5, "run:end", {"runId": "run_1", "status": "failed", "error": error})
            exchange.end()

        script = serve(self, answer)
        async with self.client(script) as rondo:
            run = await rondo.app("a").run("Hi")
            result = await run.result()
            self.assertEqual((result.status, result.text), ("failed", ""))
            with self.assertRaises(RunFailed) as caught:
                await run.text()
        self.assertEqual((caught.exception.code, caught.exception.detail), ("provider_auth", "the key is wrong"))

    async def test_a_run_that_nobody_reads_lets_go_of_its_connection(self) -> None:
        closed = threading.Event()

        def answer(exchange: Exchange, _: Received, __: int) -> None:
            try:
                exchange.stream(RUN)
                exchange.until_closed()
            finally:
                # The client may be gone before the stream is written: then the writing ends with an error.
                closed.set()

        script = serve(self, answer)
        async with self.client(script) as rondo:
            async with await rondo.app("a").run("Hi") as run:
                self.assertEqual(run.id, "run_1")
            self.assertTrue(closed.wait(10), "the connection is closed")

    async def test_access_that_ends_is_asked_for_again(self) -> None:
        tokens = iter(["t1", "t2"])

        def answer(exchange: Exchange, _: Received, number: int) -> None:
            exchange.stream(RUN)
            for one in EVENTS[4:] if number else EVENTS[:4]:
                exchange.event(*one)
            if not number:
                exchange.event(None, "access:ended", {"reason": "expired", "detail": "get a new one"})
            exchange.end()

        async def token() -> str:
            return next(tokens)

        script = serve(self, answer)
        async with self.client(script, token=token) as rondo:
            self.assertEqual(await seen(await rondo.app("a").run("Hi")), ALL)
        self.assertEqual(
            [request.headers["authorization"] for request in script.requests], ["Bearer t1", "Bearer t2"]
        )

    async def test_a_snapshot_takes_the_place_of_what_was_read_and_may_end_the_run(self) -> None:
        def answer(exchange: Exchange, _: Received, __: int) -> None:
            exchange.stream()
            data = {"runId": "run_1", "threadId": "thr_1", "status": "completed", "text": "Hello.", "messageId": "msg_2"}
            exchange.event(12, "snapshot", data)

        script = serve(self, answer)
        async with self.client(script) as rondo:
            run = rondo.resume("run_1", 40)
            self.assertEqual(await seen(run), [(12, "snapshot")])
            self.assertEqual((await run.text(), run.thread_id, run.state.stale), ("Hello.", "thr_1", True))

    async def test_a_run_of_which_everything_was_read_is_an_empty_loop_with_a_result(self) -> None:
        def answer(exchange: Exchange, request: Received, number: int) -> None:
            if request.headers.get("last-event-id") == "8":
                exchange.empty()
            else:
                whole(exchange, request, number)

        script = serve(self, answer)
        async with self.client(script) as rondo:
            run = rondo.resume("run_1", 8)
            self.assertEqual(await seen(run), [])
            self.assertEqual(await run.text(), "Hello.")

    async def test_lists_are_read_page_by_page(self) -> None:
        def answer(exchange: Exchange, request: Received, _: int) -> None:
            is_second = "cursor=n%261" in request.url
            page = {"data": [{"id": "c"}], "next": None} if is_second else {"data": [{"id": "a"}, {"id": "b"}], "next": "n&1"}
            exchange.json(page)

        script = serve(self, answer)
        async with self.client(script) as rondo:
            page = await rondo.app("a").threads(limit=2).page()
            self.assertEqual((len(page.data), page.next), (2, "n&1"))
            ids = [thread["id"] async for thread in rondo.app("a").threads(limit=2)]
        self.assertEqual(ids, ["a", "b", "c"])
        self.assertEqual(script.requests[2].url, "/v1/apps/a/threads?limit=2&cursor=n%261")

    async def test_files_keep_their_paths_and_bodies_their_types(self) -> None:
        script = serve(self, lambda exchange, _, __: exchange.json({"id": "x"}))
        async with self.client(script) as rondo:
            app = rondo.app("a")
            await app.files.put("trips/my plan.md", "# Plan", 3)
            await app.upload_image(b"png", name="a b.png")
            await app.upload_document("text", name="notes.md")
            await rondo.thread("thr_1").change(title="New")
        self.assertEqual(
            [(one.method, one.url, one.headers["content-type"], one.body) for one in script.requests],
            [
                ("PUT", "/v1/apps/a/files/trips/my%20plan.md?version=3", "text/markdown; charset=utf-8", "# Plan"),
                ("POST", "/v1/apps/a/images?name=a+b.png", "image/png", "png"),
                ("POST", "/v1/apps/a/documents?name=notes.md", "text/markdown", "text"),
                ("PATCH", "/v1/threads/thr_1", "application/json", '{"title": "New"}'),
            ],
        )
        self.assertEqual(len({one.headers["idempotency-key"] for one in script.requests}), 4)

    async def test_the_user_channel_goes_on_after_its_last_notice_and_the_last_event_of_each_thread(self) -> None:
        def notice(exchange: Exchange, number: int, status: str) -> None:
            data = {"appId": "a", "threadId": "thr_1", "runId": "run_1", "status": status}
            exchange.event(number, "notice:run", data)

        def delta(exchange: Exchange, seq: int) -> None:
            data = {"threadId": "thr_1", "seq": seq, "runId": "run_1", "data": {"step": 1, "delta": "Hi"}}
            exchange.event(None, "text:delta", data)

        def answer(exchange: Exchange, _: Received, number: int) -> None:
            exchange.stream()
            if number == 0:
                exchange.write("id: 40\n\n")
                notice(exchange, 41, "running")
                delta(exchange, 6)
                exchange.end()
            elif number == 1:
                notice(exchange, 41, "running")
                delta(exchange, 6)
                delta(exchange, 7)
                notice(exchange, 42, "completed")
                exchange.until_closed()
            else:
                exchange.event(50, "resync", {})

        script = serve(self, answer)
        opened: list[int] = []
        got: list[tuple[str, int]] = []
        async with self.client(script) as rondo:
            channel = rondo.events(follow={"thr_1": 5}, on_open=lambda: opened.append(len(got)))
            async for event in channel:
                if isinstance(event, Event):
                    got.append((event.type, event.seq))
                    self.assertEqual((event.thread_id, event.run_id), ("thr_1", "run_1"))
                    continue
                got.append((event.type, event.id))
                if event.type == "notice:run" and event.data["status"] == "completed":
                    channel.follow("thr_2", 0)
                if event.type == "resync":
                    break
        self.assertEqual(opened, [0], "told once, before anything else")
        self.assertEqual(
            got,
            [("notice:run", 41), ("text:delta", 6), ("text:delta", 7), ("notice:run", 42), ("resync", 50)],
        )
        self.assertEqual(
            [(one.url, one.headers.get("last-event-id")) for one in script.requests],
            [
                ("/v1/events?follow=thr_1%3A5", None),
                ("/v1/events?follow=thr_1%3A6", "41"),
                ("/v1/events?follow=thr_1%3A7%2Cthr_2%3A0", "42"),
            ],
        )

    async def test_an_event_that_never_ends_is_refused(self) -> None:
        def answer(exchange: Exchange, _: Received, __: int) -> None:
            exchange.stream(RUN)
            piece = "data: " + "x" * (1 << 20) + "\n"
            while True:
                exchange.write(piece)

        script = serve(self, answer)
        async with self.client(script) as rondo:
            with self.assertRaises(RondoError) as caught:
                await seen(rondo.resume("run_1"))
        self.assertEqual(caught.exception.code, "event_too_large")


CALL = {"callId": "call_1", "name": "place", "input": {"exact": True}, "expiresAt": "2026-01-01T00:00:00Z"}
STEP = {
    "step": 1,
    "text": "",
    "calls": [{"id": "call_1", "name": "place", "input": {"exact": True}}],
    "usage": USAGE,
    "finish": "tool_calls",
}


class Calling:
    """A run that calls a tool of the client; it goes on when the call is answered."""

    def __init__(self, status: str = "open", refuse: str | None = None) -> None:
        self.status, self.refuse = status, refuse
        self.answers: list[Any] = []
        self.answered = threading.Event()

    def __call__(self, exchange: Exchange, request: Received, number: int) -> None:
        if request.url.endswith("/result"):
            self.result(exchange, json.loads(request.body))
        elif request.url.startswith("/v1/calls/"):
            exchange.json({"id": "call_1", "status": self.status})
        else:
            exchange.stream(RUN)
            for one in EVENTS[:2]:
                exchange.event(*one)
            exchange.event(3, "step:end", STEP)
            exchange.event(4, "call:open", CALL)
            if self.status == "open":
                self.answered.wait(30)
                output = self.answers[-1]
                data = {"callId": "call_1", "name": "place", "status": "complete", "output": output, "durationMs": 1}
                exchange.event(5, "tool:complete", data)
            exchange.event(6, "run:end", {"runId": "run_1", "status": "completed"})
            exchange.end()

    def result(self, exchange: Exchange, body: Any) -> None:
        self.answers.append(body)
        if self.refuse == "large" and "result" in body:
            exchange.problem(413, "result_too_large")
        elif self.refuse == "down" and len(self.answers) < 7:
            exchange.reset()
        elif self.refuse == "answered":
            exchange.problem(409, "call_answered")
            self.answered.set()
        else:
            exchange.json({"id": "call_1", "status": "answered"})
            self.answered.set()


class AsyncCallsTest(AsyncTestCase):
    async def test_calls_of_the_client_are_run_and_answered_once(self) -> None:
        made: list[bool] = []

        @tool
        async def place(exact: bool) -> dict[str, str]:
            """Where the user is"""
            made.append(exact)
            return {"city": "Oslo"}

        script = serve(self, Calling())
        async with AsyncRondo(script.url) as rondo:
            known = ClientTool("known", lambda: 1)  # the app declares it
            run = await rondo.app("a").run("Where?", tools=[place, known])
            result = await run.result()
        self.assertEqual(made, [True])
        self.assertEqual(result.steps[0].calls[0].output, {"result": {"city": "Oslo"}})
        schema = {
            "type": "object",
            "properties": {"exact": {"type": "boolean"}},
            "additionalProperties": False,
            "required": ["exact"],
        }
        self.assertEqual(
            json.loads(script.requests[0].body)["tools"],
            [{"name": "place", "description": "Where the user is", "parameters": schema}],
        )

    async def test_a_tool_that_fails_tells_the_model_why_and_one_that_was_answered_elsewhere_is_no_failure(self) -> None:
        def place(exact: bool) -> None:
            raise PermissionError("no permission")

        for refuse in (None, "answered"):
            calling = Calling(refuse=refuse)
            script = serve(self, calling)
            async with AsyncRondo(script.url) as rondo:
                await (await rondo.app("a").run("Where?", tools={"place": place})).result()
            self.assertEqual(calling.answers, [{"error": "no permission"}])

    async def test_a_result_that_the_server_refuses_is_told_to_the_model(self) -> None:
        calling = Calling(refuse="large")
        script = serve(self, calling)
        async with AsyncRondo(script.url) as rondo:
            run = await rondo.app("a").run("Where?", tools={"place": lambda exact: "x" * 100})
            result = await run.result()
        self.assertEqual(result.steps[0].calls[0].output, {"error": "because of result_too_large"})
        self.assertEqual(len(calling.answers), 2)

    async def test_a_result_that_is_not_json_is_told_to_the_model(self) -> None:
        calling = Calling()
        script = serve(self, calling)
        async with AsyncRondo(script.url) as rondo:
            await (await rondo.app("a").run("Where?", tools={"place": lambda exact: {1, 2}})).result()
        self.assertIn("not JSON serializable", calling.answers[0]["error"])

    async def test_an_answer_waits_longer_than_other_requests_for_a_server_that_restarts(self) -> None:
        calling = Calling(refuse="down")
        script = serve(self, calling)
        async with AsyncRondo(script.url) as rondo:
            await (await rondo.app("a").run("Where?", tools={"place": lambda exact: "here"})).result()
        self.assertEqual(len(calling.answers), 7)
        results = [one for one in script.requests if one.url.endswith("/result")]
        self.assertEqual(len({one.headers["idempotency-key"] for one in results}), 1)

    async def test_a_call_that_was_answered_before_is_not_made_again(self) -> None:
        script = serve(self, Calling("answered"))
        made: list[bool] = []
        async with AsyncRondo(script.url) as rondo:
            run: AsyncRun = rondo.resume("run_1", tools={"place": lambda exact: made.append(exact)})
            await run.result()
        self.assertEqual(made, [])
        self.assertFalse([one for one in script.requests if one.url.endswith("/result")])

    async def test_a_call_is_answered_by_hand_once(self) -> None:
        calling = Calling()
        script = serve(self, calling)
        async with AsyncRondo(script.url) as rondo:
            self.assertIsNotNone(await rondo.answer("call_1", {"a": 1}))
            calling.refuse = "answered"
            self.assertIsNone(await rondo.answer_error("call_1", "too late"))
        self.assertEqual(calling.answers, [{"result": {"a": 1}}, {"error": "too late"}])
        self.assertIsInstance(ApiError("x", 500, "y"), RondoError)
