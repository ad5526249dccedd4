"""Makes what a page shows out of events: messages of the shown branch, steps, calls, proposals and the status.

``fold`` is pure, and an event that is already in the state changes nothing. The tests of the server, of the TypeScript
client and of this package fold the same logs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Iterable, Literal, Mapping, Sequence, cast

from . import schema
from ._events import Event, RondoEvent, is_over


@dataclass(frozen=True)
class ShownCall:
    """A tool call."""

    id: str
    name: str
    #: ``streaming``, ``pending``, then ``proposed`` (waits for approval), ``open`` (waits for the client) or ``running``,
    #: and at the end the status of the result.
    status: str
    #: The arguments, once they are complete.
    input: Any = None
    #: The arguments as they stream.
    input_text: str | None = None
    output: Any = None
    duration_ms: int | None = None
    proposal_id: str | None = None
    expires_at: str | None = None


@dataclass(frozen=True)
class ShownStep:
    """One model call and the tool calls that it asks for."""

    step: int
    text: str = ""
    calls: tuple[ShownCall, ...] = ()
    model: str | None = None
    reasoning: str | None = None
    #: Why it ended; None while it streams.
    finish: str | None = None
    #: The model call failed and is repeated.
    retry: schema.StepRetry | None = None


@dataclass(frozen=True)
class ShownMessage:
    """A message of the user, or an answer."""

    #: The same from the first event to the last: the id of the user's message, or of the run that answers.
    key: str
    role: str
    text: str
    #: The id of the message; an answer has it when it is stored.
    id: str | None = None
    parent_id: str | None = None
    run_id: str | None = None
    parts: list[Any] | None = None
    #: The other messages in this place, with this one, oldest first: ``{"ids": […], "index": n}``.
    siblings: Mapping[str, Any] | None = None
    created_at: str | None = None
    #: From here on: answers only.
    status: str | None = None
    steps: tuple[ShownStep, ...] = ()
    sources: tuple[schema.Source, ...] | None = None
    warnings: list[Any] | None = None
    memories_referenced: list[str] | None = None
    data: Any = None
    usage: schema.Usage | None = None
    error: schema.Failure | None = None
    model: str | None = None
    duration_ms: int | None = None


@dataclass(frozen=True)
class RunOutcome(ShownMessage):
    """How a run ended, with everything that it has said and done."""

    thread_id: str = ""


@dataclass(frozen=True)
class Conversation:
    """What a page shows of a thread. It is never changed: ``fold`` makes the next one."""

    #: The number of the newest event in it.
    seq: int = 0
    #: The messages of the shown branch, oldest first. The answer under way is the last one.
    messages: tuple[ShownMessage, ...] = ()
    #: ``idle``, or how the run under way stands.
    status: Literal["idle", "running", "waiting"] = "idle"
    #: Calls that wait for the user's approval.
    proposals: tuple[schema.ProposalOpen, ...] = ()
    #: Calls that this client, or another one of the user, is to run.
    calls: tuple[schema.CallOpen, ...] = ()
    thread_id: str | None = None
    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    #: The run under way.
    run_id: str | None = None
    #: The events do not tell everything that the page shows now: read the thread again.
    stale: bool = False


#: A conversation of which nothing is known yet.
EMPTY = Conversation()


def loaded(thread: schema.ThreadView, messages: Iterable[schema.Message]) -> Conversation:
    """A conversation as the server lists it: a thread and the messages of its shown branch."""
    view = cast(Mapping[str, Any], thread)
    return Conversation(
        seq=view["lastSeq"],
        messages=tuple(_shown(cast(Mapping[str, Any], message)) for message in messages),
        thread_id=view["id"],
        title=view.get("title"),
        pinned=view.get("pinned"),
        archived=view.get("archived"),
    )


def _shown(message: Mapping[str, Any]) -> ShownMessage:
    common = ShownMessage(
        key=message["id"],
        role=message["role"],
        text=message["text"],
        id=message["id"],
        parent_id=message.get("parentId"),
        parts=message.get("parts"),
        siblings=message.get("siblings"),
        created_at=message.get("createdAt"),
    )
    if message["role"] == "user":
        return common
    results = {result["callId"]: result for result in message["toolResults"]}
    step = ShownStep(
        1,
        message["text"],
        tuple(_stored_call(call, results.get(call["id"], {})) for call in message["toolCalls"]),
        reasoning=message.get("reasoning"),
        finish="stop",
    )
    return replace(
        common,
        key=message.get("runId") or message["id"],
        run_id=message.get("runId"),
        status=message.get("status") or "completed",
        steps=(step,),
        memories_referenced=message.get("memoriesReferenced"),
        sources=tuple(message["sources"]) if message.get("sources") is not None else None,
        usage=message.get("usage"),
        model=message.get("model"),
        duration_ms=message.get("durationMs"),
    )


def _stored_call(call: Mapping[str, Any], result: Mapping[str, Any]) -> ShownCall:
    status = result.get("status") or ("complete" if result.get("success") else "failed")
    return ShownCall(
        call["id"],
        call["name"],
        status,
        input=call.get("input"),
        output=result.get("result"),
        duration_ms=result.get("durationMs"),
    )


#: Events that set a value of the thread, so that they may be folded again.
_SETTING = ("thread:named", "thread:changed")


def fold(state: Conversation, event: RondoEvent | Event[str, Any]) -> Conversation:
    """The conversation after one more event.

    Events of a run's stream, of a thread's channel and of the user channel fold to the same conversation.
    """
    is_snapshot = event.type == "snapshot"
    # A snapshot stands for events that are gone, so its number may be any.
    if event.seq <= state.seq and not is_snapshot and event.type not in _SETTING:
        return state
    act = _ACTS.get(event.type)
    after = act(state, cast(Mapping[str, Any], event.data)) if act else state
    return replace(after, seq=event.seq if is_snapshot else max(state.seq, event.seq))


_Data = Mapping[str, Any]


def _message_user(state: Conversation, data: _Data) -> Conversation:
    if any(message.id == data["messageId"] for message in state.messages):
        return state
    message = ShownMessage(
        key=data["messageId"],
        role="user",
        text=data["text"].strip(),  # the server shows the trimmed text everywhere else
        id=data["messageId"],
        parent_id=data.get("parentId"),
        parts=data.get("parts"),
    )
    return _place(state, data.get("parentId"), message)


def _run_start(state: Conversation, data: _Data) -> Conversation:
    run_id, message_id = data["runId"], data["messageId"]
    answer = ShownMessage(
        run_id, "assistant", "", parent_id=message_id, run_id=run_id, status="running", model=data.get("model")
    )
    placed = _place(state, message_id, answer)
    return replace(
        placed, thread_id=data["threadId"], run_id=run_id, status="running", proposals=(), calls=()
    )


def _context_loaded(state: Conversation, data: _Data) -> Conversation:
    warnings = data.get("warnings")
    return _answer(state, lambda message: replace(message, warnings=warnings) if warnings else message)


def _source(state: Conversation, data: _Data) -> Conversation:
    source = cast(schema.Source, data)
    return _answer(state, lambda message: replace(message, sources=(*(message.sources or ()), source)))


def _step_start(state: Conversation, data: _Data) -> Conversation:
    step = ShownStep(data["step"], model=data.get("model"))
    return _answer(state, lambda message: replace(message, text="", steps=(*message.steps, step)))


def _text_delta(state: Conversation, data: _Data) -> Conversation:
    return _in_step(state, data["step"], lambda step: replace(step, text=step.text + data["delta"]))


def _reasoning_delta(state: Conversation, data: _Data) -> Conversation:
    return _in_step(
        state, data["step"], lambda step: replace(step, reasoning=(step.reasoning or "") + data["delta"])
    )


def _tool_input(state: Conversation, data: _Data) -> Conversation:
    def change(step: ShownStep) -> ShownStep:
        known = {call.id: call for call in step.calls}
        call = known.get(data["callId"]) or ShownCall(data["callId"], data["name"], "streaming", input_text="")
        known[call.id] = replace(call, input_text=(call.input_text or "") + data["delta"])
        return replace(step, calls=tuple(known.values()))

    return _in_step(state, data["step"], change)


def _step_retry(state: Conversation, data: _Data) -> Conversation:
    retry = cast(schema.StepRetry, data)
    return _in_step(state, data["step"], lambda step: replace(step, retry=retry))


def _step_reset(state: Conversation, data: _Data) -> Conversation:
    def begin_again(step: ShownStep) -> ShownStep:
        return ShownStep(step.step, model=data.get("model") or step.model) if step.step == data["step"] else step

    return _answer(
        state, lambda message: replace(message, text="", steps=tuple(begin_again(step) for step in message.steps))
    )


def _step_end(state: Conversation, data: _Data) -> Conversation:
    calls = tuple(ShownCall(call["id"], call["name"], "pending", input=call["input"]) for call in data["calls"])
    return _in_step(
        state,
        data["step"],
        lambda step: replace(
            step,
            model=data.get("model") or step.model,
            reasoning=data.get("reasoning"),
            retry=None,
            text=data["text"],
            finish=data["finish"],
            calls=calls,
        ),
    )


def _tool_start(state: Conversation, data: _Data) -> Conversation:
    return _call(state, data["callId"], status="running")


def _tool_complete(state: Conversation, data: _Data) -> Conversation:
    return _call(
        _closed(state, data["callId"]),
        data["callId"],
        status=data["status"],
        output=data.get("output"),
        duration_ms=data.get("durationMs"),
    )


def _proposal_open(state: Conversation, data: _Data) -> Conversation:
    changed = _call(
        state,
        data["callId"],
        status="proposed",
        proposal_id=data["proposalId"],
        expires_at=data.get("expiresAt"),
    )
    proposal = cast(schema.ProposalOpen, data)
    return _settled(replace(changed, proposals=(*changed.proposals, proposal)))


def _proposal_closed(state: Conversation, data: _Data) -> Conversation:
    return _call(_closed(state, data["callId"]), data["callId"], status="pending")


def _call_open(state: Conversation, data: _Data) -> Conversation:
    changed = _call(state, data["callId"], status="open", expires_at=data.get("expiresAt"))
    return _settled(replace(changed, calls=(*changed.calls, cast(schema.CallOpen, data))))


def _stream_complete(state: Conversation, data: _Data) -> Conversation:
    def change(message: ShownMessage) -> ShownMessage:
        # An answer that no model wrote is no step of the log, but a page shows it like one.
        steps = _ended(message.steps)
        if not steps or steps[-1].text != data["text"]:
            steps = (*steps, ShownStep(len(steps) + 1, data["text"], finish="stop"))
        given = data.get("data")
        return replace(
            message,
            id=data["messageId"],
            text=data["text"],
            steps=steps,
            memories_referenced=data.get("memoriesReferenced"),
            usage=data.get("usage"),
            data=message.data if given is None else given,
        )

    return _answer(state, change)


def _run_end(state: Conversation, data: _Data) -> Conversation:
    if data["runId"] != state.run_id:
        return state  # a queued run that was cancelled

    def change(message: ShownMessage) -> ShownMessage:
        # Pieces of a step without an end count for nothing.
        steps = _ended(message.steps)
        text = message.text if message.id else (steps[-1].text if steps else "")
        return replace(
            message,
            status=data["status"],
            steps=steps,
            text=text,
            error=data.get("error") or message.error,
            id=data.get("messageId") or message.id,
        )

    ended = _answer(state, change)
    return replace(ended, run_id=None, status="idle", proposals=(), calls=())


def _thread_named(state: Conversation, data: _Data) -> Conversation:
    return replace(state, title=data["title"])


def _thread_changed(state: Conversation, data: _Data) -> Conversation:
    pinned, archived = data.get("pinned"), data.get("archived")
    return replace(
        state,
        pinned=state.pinned if pinned is None else pinned,
        archived=state.archived if archived is None else archived,
    )


def _thread_head(state: Conversation, data: _Data) -> Conversation:
    is_shown = bool(state.messages) and state.messages[-1].id == data["headId"]
    return state if is_shown else replace(state, stale=True)


def _snapshot(state: Conversation, data: _Data) -> Conversation:
    run_id, status = data["runId"], data["status"]
    there = next((message for message in state.messages if message.key == run_id), None)
    old = there or ShownMessage(run_id, "assistant", "", run_id=run_id)
    message = replace(
        old,
        id=data.get("messageId") or old.id,
        text=data["text"],
        status=status,
        steps=(ShownStep(1, data["text"]),),
        memories_referenced=data.get("memoriesReferenced") or old.memories_referenced,
        data=old.data if data.get("data") is None else data["data"],
        error=data.get("error") or old.error,
    )
    if there:
        messages = tuple(message if one.key == run_id else one for one in state.messages)
    else:
        messages = (*state.messages, message)
    after = replace(
        state, thread_id=data["threadId"], messages=messages, proposals=(), calls=(), stale=True, run_id=None
    )
    if is_over(status):
        return replace(after, status="idle")
    return replace(after, run_id=run_id, status="waiting" if status == "waiting" else "running")


_ACTS: Mapping[str, Callable[[Conversation, _Data], Conversation]] = {
    "message:user": _message_user,
    "run:start": _run_start,
    "context:loaded": _context_loaded,
    "source": _source,
    "step:start": _step_start,
    "text:delta": _text_delta,
    "reasoning:delta": _reasoning_delta,
    "tool:input": _tool_input,
    "step:retry": _step_retry,
    "step:reset": _step_reset,
    "step:end": _step_end,
    "tool:start": _tool_start,
    "tool:complete": _tool_complete,
    "proposal:open": _proposal_open,
    "proposal:closed": _proposal_closed,
    "call:open": _call_open,
    "stream:complete": _stream_complete,
    "run:end": _run_end,
    "thread:named": _thread_named,
    "thread:changed": _thread_changed,
    "thread:head": _thread_head,
    "snapshot": _snapshot,
}


def _ended(steps: Sequence[ShownStep]) -> tuple[ShownStep, ...]:
    return tuple(step for step in steps if step.finish is not None)


def _place(state: Conversation, parent_id: str | None, message: ShownMessage) -> Conversation:
    """Puts a message after its parent. Messages after the parent belong to another branch from now on."""
    found = next((index for index, one in enumerate(state.messages) if one.id == parent_id), None)
    at = found + 1 if parent_id and found is not None else 0
    # Only a reader that knows the beginning of the thread can say what comes after what.
    if at == 0 and parent_id and state.messages:
        return replace(state, messages=(*state.messages, message), stale=True)
    other = state.messages[at] if at < len(state.messages) else None
    ids: list[str] = []
    if other and other.role == message.role and other.key != message.key:
        ids = list(other.siblings["ids"]) if other.siblings else ([other.id] if other.id else [])
    if ids:
        own = [message.id] if message.id else []
        message = replace(message, siblings={"ids": [*ids, *own], "index": len(ids)})
    return replace(state, messages=(*state.messages[:at], message))


def _answer(state: Conversation, change: Callable[[ShownMessage], ShownMessage]) -> Conversation:
    """Changes the answer of the run under way."""
    last = state.messages[-1] if state.messages else None
    if last is None or last.key != state.run_id:
        return state
    message = change(last)
    if message.siblings and message.id and not last.id:
        siblings = {**message.siblings, "ids": [*message.siblings["ids"], message.id]}
        message = replace(message, siblings=siblings)
    return replace(state, messages=(*state.messages[:-1], message))


def _in_step(state: Conversation, number: int, change: Callable[[ShownStep], ShownStep]) -> Conversation:
    """Changes a step of the run under way. An answer that no model wrote has text, but no step that has begun."""

    def with_step(message: ShownMessage) -> ShownMessage:
        opened = next((step for step in message.steps if step.step == number), None) or ShownStep(number)
        step = change(opened)
        others = tuple(old for old in message.steps if old is not opened)
        return replace(message, text=step.text, steps=(*others, step))

    return _answer(state, with_step)


def _call(state: Conversation, call_id: str, **change: Any) -> Conversation:
    """Changes a call of the run under way."""

    def alter(step: ShownStep) -> ShownStep:
        if not any(call.id == call_id for call in step.calls):
            return step
        return replace(
            step, calls=tuple(replace(call, **change) if call.id == call_id else call for call in step.calls)
        )

    changed = _answer(
        state, lambda message: replace(message, steps=tuple(alter(step) for step in message.steps))
    )
    return _settled(changed)


def _closed(state: Conversation, call_id: str) -> Conversation:
    """Removes what waited for this call."""
    return replace(
        state,
        proposals=tuple(one for one in state.proposals if one["callId"] != call_id),
        calls=tuple(one for one in state.calls if one["callId"] != call_id),
    )


def _settled(state: Conversation) -> Conversation:
    """A run waits when each of its open calls waits for the user."""
    if not state.run_id:
        return state
    steps = state.messages[-1].steps if state.messages else ()
    statuses = [call.status for step in steps for call in step.calls]
    opened = [status for status in statuses if status in ("pending", "running", "proposed", "open")]
    waits = bool(opened) and all(status in ("proposed", "open") for status in opened)
    status: Literal["waiting", "running"] = "waiting" if waits else "running"
    return _answer(replace(state, status=status), lambda message: replace(message, status=status))
