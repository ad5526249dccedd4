"""The MCP server with the protocol's client for Python: ``python mcp_client.py legacy|modern all|kill URL``."""

import asyncio
import sys

from mcp import Client, MCPError
from mcp.types import ElicitResult

from report import Reporter, same, tell, told

WHICH, WHAT, URL = sys.argv[1:]
MODE = {"legacy": "legacy", "modern": "auto"}[WHICH]
REPORTER = Reporter("mcp (Python)" if WHICH == "legacy" else "mcp (Python, 2026-07-28)", "mcp")


def client(answer=None, path="/mcp/demo"):
    return Client(URL + path, mode=MODE, elicitation_callback=answer)


async def call(open_client, name, args, **more):
    result = await open_client.call_tool(name, args, **more)
    assert not result.is_error, result.content
    return result.structured_content


def answered(result):
    return result["status"], result["answer"]


async def all_features():
    feature = REPORTER.feature

    async def connect():
        async with client() as one:
            same(one.server_info.name, "rondo")
            if WHICH == "legacy":
                await one.send_ping()
            else:
                same(one.protocol_version, "2026-07-28")

    async def tools():
        async with client() as one:
            names = [tool.name for tool in (await one.list_tools()).tools]
        for name in ("ask", "start", "get", "answer", "cancel", "search_memories"):
            assert name in names, names

    async def ask():
        async with client() as one:
            first = await call(one, "ask", {"message": "My name is Ann."})
            same(answered(first), ("completed", "Hello Ann."))
            second = await call(one, "ask", {"message": "How often do I say Ann?", "thread": first["thread"]})
            same(answered(second), ("completed", "Your history has 3 messages."))

    async def progress():
        seen = []

        async def note(progress, total, message):
            seen.append(progress)

        async with client() as one:
            result = await call(one, "ask", {"message": "Calculate it"}, progress_callback=note)
        same(answered(result), ("completed", "It is 42."))
        assert seen and seen == sorted(set(seen)), seen

    async def start():
        async with client() as one:
            run = (await call(one, "start", {"message": "Count"}))["run"]
            same(answered(await call(one, "get", {"run": run, "waitSeconds": 20})), ("completed", "One, two, three."))

    async def cancel():
        async with client() as one:
            run = (await call(one, "start", {"message": "Hold on"}))["run"]
            await call(one, "cancel", {"run": run})
            same((await call(one, "get", {"run": run, "waitSeconds": 20}))["status"], "cancelled")

    async def approval():
        for approve in (True, False):
            asked = []

            async def answer(context, params, approve=approve, asked=asked):
                asked.append(params.message)
                return ElicitResult(action="accept", content={"approve": approve})

            async with client(answer) as one:
                result = await call(one, "ask", {"message": "What time is it?"})
            same(answered(result), ("completed", "It is late." if approve else "I may not look."))
            same((len(asked), "current_time" in asked[0]), (1, True))

    async def approval_by_tool():
        async with client() as one:
            waiting = await call(one, "ask", {"message": "What time is it?"})
            same((waiting["status"], len(waiting["approvals"])), ("waiting", 1))
            await call(one, "answer", {"id": waiting["approvals"][0]["id"], "approve": True})
            after = await call(one, "get", {"run": waiting["run"], "waitSeconds": 20})
            same(answered(after), ("completed", "It is late."))

    async def memories():
        async with client() as one:
            added = await call(one, "add_memory", {"text": f"Likes python {WHICH} lighthouses."})
            found = await call(one, "search_memories", {"query": f"python {WHICH} lighthouses"})
            assert added["id"] in [memory["id"] for memory in found["memories"]], found
            await call(one, "forget_memory", {"id": added["id"]})

    async def resources():
        async with client() as one:
            listed = (await one.list_resources()).resources
            (note,) = [resource for resource in listed if str(resource.uri).endswith("/notes.md")]
            contents = (await one.read_resource(str(note.uri))).contents
            same(contents[0].text, "# Notes\n\nThe lamp is green.")
            same(len((await one.list_resource_templates()).resource_templates), 1)

    async def errors():
        async with client() as one:
            assert (await one.call_tool("get", {"run": "run_no"})).is_error
            for wrong in (lambda: one.call_tool("no_such_tool", {}), lambda: one.read_resource("rondo://demo/files/none.md")):
                try:
                    await wrong()
                except MCPError:
                    continue
                raise AssertionError("no error")
            failed = await one.call_tool("ask", {"message": "Fail"})
            assert "canary" not in str(failed), failed

    for act in (
        connect, tools, ask, progress, start, cancel, approval, approval_by_tool, memories, resources, errors,
    ):
        await feature(act.__name__, act)
    REPORTER.absent("conformance", "a suite of its own")


async def kill():
    """The server dies while a run is under way. The run is there afterwards."""

    async def survive():
        async with client() as one:
            run = (await call(one, "start", {"message": "Hold on"}))["run"]
            while not (said := (await call(one, "get", {"run": run}))["answer"]):
                await asyncio.sleep(0.05)
            tell(f"said: {said}")
            await asyncio.to_thread(told)  # a new server is there
            async with client() as later:
                same(answered(await call(later, "get", {"run": run, "waitSeconds": 20})), ("completed", "Hello."))

    await REPORTER.feature("kill", survive)


asyncio.run({"all": all_features, "kill": kill}[WHAT]())
