"""Responses with OpenAI's client for Python, blocking and for asyncio: ``python responses.py all|kill URL``."""

import asyncio
import inspect
import json
import sys

import openai
from pydantic import BaseModel

from report import PNG, Reporter, same, tell, told

WHAT, URL = sys.argv[1:]
MODEL = "demo"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Trip(BaseModel):
    city: str
    days: int


async def done(value):
    return await value if inspect.isawaitable(value) else value


async def each(stream):
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            yield event
    else:
        for event in stream:
            yield event


async def read(stream, start=0):
    """Reads a stream whose numbers must follow each other."""
    events = []
    async for event in each(stream):
        same(event.sequence_number, start + len(events))
        events.append(event)
    return events


def text_of(events):
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def try_all(client, reporter):
    async def create(input, **more):
        return await done(client.responses.create(model=MODEL, input=input, **more))

    async def retrieve(id, **more):
        return await done(client.responses.retrieve(id, **more))

    async def ended(id):
        while True:
            response = await retrieve(id)
            if response.status not in ("queued", "in_progress"):
                return response
            await asyncio.sleep(0.05)

    async def whole():
        made = await create("Count")
        same((made.status, made.output_text), ("completed", "One, two, three."))
        same((await retrieve(made.id)).output_text, "One, two, three.")

    async def stream():
        events = await read(await create("Count", stream=True))
        same((events[0].type, text_of(events)), ("response.created", "One, two, three."))
        same((events[-1].type, events[-1].response.output_text), ("response.completed", "One, two, three."))

    async def stream_helper():
        manager = client.responses.stream(model=MODEL, input="Count")
        if hasattr(manager, "__aenter__"):
            async with manager as events:
                final = await events.get_final_response()
        else:
            with manager as events:
                final = events.get_final_response()
        same(final.output_text, "One, two, three.")

    async def previous():
        one = await create("My name is Ann.")
        two = await create("How often do I say Ann?", previous_response_id=one.id)
        same((two.output_text, two.previous_response_id), ("Your history has 3 messages.", one.id))

    async def history():
        said = [
            {"role": "user", "content": "My name is Ann."},
            {"role": "assistant", "content": "Hello Ann."},
            {"role": "user", "content": [{"type": "input_text", "text": "How often do I say Ann?"}]},
        ]
        same((await create(said)).output_text, "Your history has 3 messages.")

    async def system():
        made = await create("Who are you?", instructions="Speak like a lighthouse keeper.")
        same(made.output_text, "I keep the light.")

    async def tools():
        one = await create("What is the weather?", tools=[WEATHER])
        (call,) = [item for item in one.output if item.type == "function_call"]
        same((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Oslo"}))
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
        two = await create([output], previous_response_id=one.id, tools=[WEATHER])
        same(two.output_text, "It is 21 degrees in Oslo.")

    async def stream_tools():
        events = await read(await create("What is the weather?", tools=[WEATHER], stream=True))
        one = events[-1].response
        (call,) = [item for item in one.output if item.type == "function_call"]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
        events = await read(await create([output], previous_response_id=one.id, tools=[WEATHER], stream=True))
        same(text_of(events), "It is 21 degrees in Oslo.")

    async def server_tools():
        made = await create("Calculate it")
        (call,) = [item for item in made.output if item.type == "mcp_call"]
        same((call.name, "42" in (call.output or ""), made.output_text), ("calculate", True, "It is 42."))

    async def approval():
        one = await create("What time is it?")
        (asked,) = [item for item in one.output if item.type == "mcp_approval_request"]
        answer = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
        two = await create([answer], previous_response_id=one.id)
        same((two.status, two.output_text), ("completed", "It is late."))

    async def parse():
        made = await done(client.responses.parse(model=MODEL, input="Plan a trip as data", text_format=Trip))
        same(made.output_parsed, Trip(city="Oslo", days=3))

    async def image():
        content = [
            {"type": "input_text", "text": "What is in the picture?"},
            {"type": "input_image", "image_url": PNG, "detail": "auto"},
        ]
        same((await create([{"role": "user", "content": content}])).output_text, "I see a picture.")

    async def background():
        begun = await create("Count", background=True)
        made = await ended(begun.id)
        same((made.status, made.output_text), ("completed", "One, two, three."))

    async def resume():
        events = await read(await create("Count", stream=True, background=True))
        id = events[0].response.id
        for after in (0, 2, len(events) - 2):
            rest = await read(await retrieve(id, stream=True, starting_after=after), after + 1)
            same([one.to_dict() for one in rest], [one.to_dict() for one in events[after + 1 :]])

    async def input_items():
        made = await create("Count")
        items = [item async for item in each(await done(client.responses.input_items.list(made.id)))]
        same([(item.type, item.role, item.content[0].text) for item in items], [("message", "user", "Count")])

    async def cancel():
        id = None
        async for event in each(await create("Hold on", stream=True, background=True)):
            id = id or event.response.id
            if event.type == "response.output_text.delta":
                break
        await done(client.responses.cancel(id))
        same((await ended(id)).status, "cancelled")

    async def delete():
        made = await create("Count")
        await done(client.responses.delete(made.id))
        try:
            await retrieve(made.id)
        except openai.NotFoundError:
            return
        raise AssertionError("it is still there")

    async def errors():
        try:
            await done(client.responses.create(model="nobody", input="Hi"))
            raise AssertionError("there is a model `nobody`")
        except openai.NotFoundError:
            pass
        try:
            failed = await create("Fail")
            same((failed.status, "canary" in str(failed)), ("failed", False))
        except openai.APIError as error:
            assert "canary" not in str(error), error

    for act in (
        whole, stream, stream_helper, previous, history, system, tools, stream_tools, server_tools, approval, parse, image,
        background, resume, input_items, cancel, delete, errors,
    ):
        await reporter.feature(act.__name__, act)


def both():
    base = {"base_url": f"{URL}/openai/v1", "api_key": "none", "max_retries": 0, "timeout": 80}
    return {
        "sync": (openai.OpenAI(**base), Reporter("openai-python", "openai")),
        "async": (openai.AsyncOpenAI(**base), Reporter("openai-python (asyncio)", "openai")),
    }


async def all_features():
    for client, reporter in both().values():
        await try_all(client, reporter)


async def kill(form):
    """The server dies in the middle of an answer."""
    client, reporter = both()[form]

    async def survive():
        events = []
        try:
            made = await done(client.responses.create(model=MODEL, input="Hold on", stream=True, background=True))
            async for event in each(made):
                events.append(event)
                if event.type == "response.output_text.delta":
                    tell(f"said: {text_of(events)}")
            raise AssertionError("the stream has ended")
        except AssertionError:
            raise
        except Exception as error:  # the client's own, or that of the library below it
            tell(f"lost: {type(error).__name__}")
        await asyncio.to_thread(told)  # a new server is there
        id, after = events[0].response.id, events[-1].sequence_number
        stream = await done(client.responses.retrieve(id, stream=True, starting_after=after))
        # The model has begun again, so what the client has read is void: it gets the end, which has the whole text.
        rest = [event async for event in each(stream)]
        assert rest[0].sequence_number > after, rest[0]
        same(rest[-1].response.output_text, "Hello.")
        whole = await done(client.responses.retrieve(id))
        same((rest[-1].type, whole.status, whole.output_text), ("response.completed", "completed", "Hello."))
        replayed = [event async for event in each(await done(client.responses.retrieve(id, stream=True)))]
        same((text_of(replayed), replayed[-1].to_dict()), ("Hello.", rest[-1].to_dict()))

    await reporter.feature("kill", survive)


if WHAT == "all":
    asyncio.run(all_features())
else:
    asyncio.run(kill(WHAT.removeprefix("kill-")))
