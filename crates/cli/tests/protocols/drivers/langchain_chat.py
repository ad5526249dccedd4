"""Chat Completions with LangChain's ``ChatOpenAI``: ``python langchain_chat.py all URL``."""

import asyncio
import os
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from report import PNG, Reporter, same, tell

WHAT, URL = sys.argv[1:]
REPORTER = Reporter("langchain-openai", "langchain-openai")


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city"""
    return "21 degrees"


def chat(**more):
    return ChatOpenAI(model="demo", base_url=f"{URL}/openai/v1", api_key="none", **{"max_retries": 0, **more})


async def all_features():
    feature, absent = REPORTER.feature, REPORTER.absent
    model = chat()
    absent("models", "LangChain does not list models")

    async def whole():
        made = model.invoke("Count")
        same((made.content, made.response_metadata["finish_reason"]), ("One, two, three.", "stop"))
        assert made.usage_metadata["output_tokens"] > 0
        same((await model.ainvoke("Count")).content, "One, two, three.")

    async def stream():
        pieces = list(model.stream("Count"))
        same("".join(piece.content for piece in pieces), "One, two, three.")
        assert len(pieces) > 1, pieces
        same("".join([piece.content async for piece in model.astream("Count")]), "One, two, three.")

    async def tools():
        bound = model.bind_tools([get_weather])
        messages = [HumanMessage("What is the weather?")]
        made = bound.invoke(messages)
        same([(call["name"], call["args"]) for call in made.tool_calls], [("get_weather", {"city": "Oslo"})])
        results = [ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in made.tool_calls]
        same(bound.invoke([*messages, made, *results]).content, "It is 21 degrees in Oslo.")

    async def parse():
        for method in ("json_schema", "json_mode"):
            made = model.with_structured_output(Trip, method=method).invoke("Plan a trip as data, in JSON")
            same(made, Trip(city="Oslo", days=3))

    async def server_tools():
        same(model.invoke("Calculate it").content, "It is 42.")

    async def approval():
        made = model.invoke("What time is it?")
        assert "current_time" in made.content and "confirm" in made.content, made

    async def image():
        content = [
            {"type": "text", "text": "What is in the picture?"},
            {"type": "image_url", "image_url": {"url": PNG}},
        ]
        same(model.invoke([HumanMessage(content)]).content, "I see a picture.")

    async def system():
        messages = [SystemMessage("Speak like a lighthouse keeper."), HumanMessage("Who are you?")]
        same(model.invoke(messages).content, "I keep the light.")

    async def history():
        messages = [HumanMessage("My name is Ann."), AIMessage("Hello Ann."), HumanMessage("How often do I say Ann?")]
        same(model.invoke(messages).content, "Your history has 3 messages.")

    async def thread():
        bound = chat(default_headers={"x-thread-id": f"langchain {os.getpid()}"})
        messages = [HumanMessage("My name is Ann.")]
        messages += [bound.invoke(messages), HumanMessage("How often do I say Ann?")]
        same(bound.invoke(messages).content, "Your history has 3 messages.")

    async def embeddings():
        # Without this, LangChain sends tokens of a vocabulary that it has fetched before.
        made = OpenAIEmbeddings(
            model="text-embedding-3-small", base_url=f"{URL}/openai/v1", api_key="none", check_embedding_ctx_length=False
        )
        same([len(vector) for vector in made.embed_documents(["one", "two"])], [4, 4])

    async def errors():
        for words in ("Fail",):
            try:
                model.invoke(words)
            except Exception as error:
                assert "canary" not in str(error), error
            else:
                raise AssertionError("a run that fails has no error")

    for act in (whole, stream, tools):
        await feature(act.__name__, act)
    absent("stream_helper", "a helper of OpenAI's own clients")
    absent("run_tools", "a helper of openai-node")
    for act in (server_tools, approval, parse, image, system, history, thread, embeddings, errors):
        await feature(act.__name__, act)
    absent("cut", "tested with OpenAI's own client, which LangChain uses")


async def retry():
    """The server is not there yet when the request is made."""

    async def ask():
        tell("asking")
        same(chat(max_retries=10).invoke("Count").content, "One, two, three.")

    await REPORTER.feature("retry", ask)


asyncio.run({"all": all_features, "retry": retry}[WHAT]())
