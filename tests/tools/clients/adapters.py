"""What libraries give a model of a large result, with the gateway and without: LangChain's adapters and the OpenAI Agents SDK."""

import asyncio
import json
import os
import pathlib
import tempfile

from agents.mcp import MCPServerStdio
from langchain_mcp_adapters.client import MultiServerMCPClient

RECORDS = 20_000
# The default threshold.
CHARACTERS_MAX = 50_000

LRO = os.environ["LRO"]
MODULES = pathlib.Path(os.environ["TEST_DATA"], "mcp/node_modules")


def command(folder: pathlib.Path, behind: bool) -> list[str]:
    program = MODULES / "@modelcontextprotocol/server-filesystem/dist/index.js"
    server = ["node", str(program), str(folder)]
    return [LRO, "gateway", "--dir", str(folder / "offloads"), "--", *server] if behind else server


def text_of(content) -> str:
    """The text of blocks, as objects or as dictionaries."""
    if isinstance(content, str):
        return content
    blocks = [block if isinstance(block, dict) else block.model_dump() for block in content]
    return "".join(block["text"] for block in blocks if block.get("type") == "text")


async def with_langchain(run: list[str], ask) -> None:
    connection = {"transport": "stdio", "command": run[0], "args": run[1:], "env": dict(os.environ)}
    client = MultiServerMCPClient({"files": connection})
    async with client.session("files") as session:
        from langchain_mcp_adapters.tools import load_mcp_tools

        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name, arguments):
            message = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
            return text_of((await tools[name].ainvoke(message)).content)

        await ask(call)


async def with_agents(run: list[str], ask) -> None:
    async with MCPServerStdio({"command": run[0], "args": run[1:], "env": dict(os.environ)}) as server:

        async def call(name, arguments):
            return text_of((await server.call_tool(name, arguments)).content)

        await ask(call)


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        path = folder / "records.json"
        path.write_text(json.dumps([{"id": number, "even": number % 2 == 0} for number in range(RECORDS)]))

        async def large(call) -> None:
            text = await call("read_text_file", {"path": str(path)})
            assert text == path.read_text(), text[:300]

        async def offloaded(call) -> None:
            text = await call("read_text_file", {"path": str(path)})
            assert len(text) <= CHARACTERS_MAX, len(text)
            handle = json.loads(text)["handle"]
            question = {"handle": handle, "where": [{"field": "even", "op": "eq", "value": True}], "count": True}
            answer = json.loads(await call("lro_extract", question))
            assert answer["results"] == [{"count": RECORDS // 2}], answer

        for library, run in [("LangChain's adapters", with_langchain), ("the OpenAI Agents SDK", with_agents)]:
            await run(command(folder, behind=False), large)
            await run(command(folder, behind=True), offloaded)
            size = path.stat().st_size
            print(f"{library}: {size} bytes without the gateway, a descriptor behind it, and one call counts in them")


asyncio.run(main())
