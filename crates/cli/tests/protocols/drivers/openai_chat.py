"""Chat Completions with OpenAI's client for Python, blocking and for asyncio: ``python openai_chat.py all URL``."""

import asyncio
import inspect
import json
import os
import sys

import openai
from pydantic import BaseModel

from report import PNG, Reporter, same, tell, until_newest

WHAT, URL = sys.argv[1:]
MODEL = "demo"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Trip(BaseModel):
    city: str
    days: int


def user(content):
    return [{"role": "user", "content": content}]


async def done(value):
    """What a call gives: the client for asyncio gives something that is awaited."""
    return await value if inspect.isawaitable(value) else value


async def chunks(stream):
    if hasattr(stream, "__aiter__"):
        return [chunk async for chunk in stream]
    return list(stream)


async def try_all(client, reporter):
    feature, absent = reporter.feature, reporter.absent

    async def create(**more):
        return await done(client.chat.completions.create(model=MODEL, **more))

    async def models():
        ids = [model.id for model in (await done(client.models.list())).data]
        assert MODEL in ids, ids
        same((await done(client.models.retrieve(MODEL))).id, MODEL)

    async def whole():
        made = await create(messages=user("Count"))
        choice = made.choices[0]
        same((made.object, choice.message.content, choice.finish_reason), ("chat.completion", "One, two, three.", "stop"))
        same(made.usage.total_tokens, made.usage.prompt_tokens + made.usage.completion_tokens)

    async def stream():
        got = await chunks(await create(messages=user("Count"), stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in got if chunk.choices)
        same((text, len({chunk.id for chunk in got})), ("One, two, three.", 1))
        same([chunk.choices[0].finish_reason for chunk in got if chunk.choices][-1], "stop")
        assert got[-1].usage.completion_tokens > 0

    async def stream_helper():
        manager = client.chat.completions.stream(model=MODEL, messages=user("Count"))
        if hasattr(manager, "__aenter__"):
            async with manager as events:
                final = await events.get_final_completion()
        else:
            with manager as events:
                final = events.get_final_completion()
        same(final.choices[0].message.content, "One, two, three.")

    async def tools():
        messages = user("What is the weather?")
        choice = (await create(messages=messages, tools=[WEATHER])).choices[0]
        same((choice.finish_reason, len(choice.message.tool_calls)), ("tool_calls", 1))
        call = choice.message.tool_calls[0]
        same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Oslo"}))
        messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}]
        same((await create(messages=messages, tools=[WEATHER])).choices[0].message.content, "It is 21 degrees in Oslo.")

    async def server_tools():
        choice = (await create(messages=user("Calculate it"))).choices[0]
        same((choice.message.content, choice.finish_reason, choice.message.tool_calls), ("It is 42.", "stop", None))

    async def approval():
        choice = (await create(messages=user("What time is it?"))).choices[0]
        same(choice.finish_reason, "stop")
        assert "current_time" in choice.message.content and "confirm" in choice.message.content, choice

    async def parse():
        ask = {"model": MODEL, "messages": user("Plan a trip as data"), "response_format": Trip}
        made = await done(client.chat.completions.parse(**ask))
        same(made.choices[0].message.parsed, Trip(city="Oslo", days=3))

    async def image():
        content = [
            {"type": "text", "text": "What is in the picture?"},
            {"type": "image_url", "image_url": {"url": PNG}},
        ]
        same((await create(messages=user(content))).choices[0].message.content, "I see a picture.")

    async def system():
        messages = [{"role": "system", "content": "Speak like a lighthouse keeper."}, *user("Who are you?")]
        same((await create(messages=messages)).choices[0].message.content, "I keep the light.")

    async def history():
        messages = [*user("My name is Ann."), {"role": "assistant", "content": "Hello Ann."}]
        made = await create(messages=[*messages, *user("How often do I say Ann?")])
        same(made.choices[0].message.content, "Your history has 3 messages.")

    async def thread():
        messages, threads = user("My name is Ann."), []
        raw = client.chat.completions.with_raw_response
        for more in (user("How often do I say Ann?"), []):
            headers = {"x-thread-id": f"{reporter.client} {os.getpid()}"}
            response = await done(raw.create(model=MODEL, messages=messages, extra_headers=headers))
            made = await done(response.parse())
            threads.append(response.headers["x-thread-id"])
            messages += [made.choices[0].message, *more]
        same((len(set(threads)), messages[-1].content), (1, "Your history has 3 messages."))

    async def embeddings():
        made = await done(client.embeddings.create(model="text-embedding-3-small", input=["one", "two"]))
        same([(one.index, len(one.embedding)) for one in made.data], [(0, 4), (1, 4)])

    async def errors():
        for wrong, kind in (
            ({"model": "nobody", "messages": user("Hi")}, openai.NotFoundError),
            ({"model": MODEL, "messages": "Hi"}, openai.BadRequestError),
            ({"model": MODEL, "messages": user("Fail")}, openai.APIError),
        ):
            try:
                await done(client.chat.completions.create(**wrong))
            except kind as error:
                assert "canary" not in str(error), error
            else:
                raise AssertionError(f"{wrong} was answered")
        try:
            await chunks(await create(messages=user("Fail"), stream=True))
        except openai.APIError as error:
            assert "canary" not in str(error), error
        else:
            raise AssertionError("a stream that fails has no error")

    async def cut():
        stream = await create(messages=user("Hold on"), stream=True)
        if hasattr(stream, "__aiter__"):
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    break
        else:
            for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    break
        await done(stream.close())
        await asyncio.to_thread(until_newest, URL, "cancelled")

    for act in (models, whole, stream, stream_helper, tools):
        await feature(act.__name__, act)
    absent("run_tools", "the Python client has no such helper")
    for act in (server_tools, approval, parse, image, system, history, thread, embeddings, errors, cut):
        await feature(act.__name__, act)


def both(**options):
    base = {"base_url": f"{URL}/openai/v1", "api_key": "none", "timeout": 80, **options}
    yield openai.OpenAI(**base), Reporter("openai-python", "openai")
    yield openai.AsyncOpenAI(**base), Reporter("openai-python (asyncio)", "openai")


async def all_features():
    for client, reporter in both(max_retries=0):
        await try_all(client, reporter)


async def retry():
    """The server is not there yet when the requests are made."""
    tell("asking")
    for client, reporter in both(max_retries=10):

        async def ask(client=client):
            made = await done(client.chat.completions.create(model=MODEL, messages=user("Count")))
            same(made.choices[0].message.content, "One, two, three.")

        await reporter.feature("retry", ask)


asyncio.run({"all": all_features, "retry": retry}[WHAT]())
