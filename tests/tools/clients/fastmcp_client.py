"""Drives the FastMCP client; reads and answers lines as the other drivers, see steps.mjs. "era" is `legacy`, `auto` or a
revision to insist on; the default is `auto`. What the client complains of in its log becomes the member "warnings"."""

import asyncio
import json
import logging
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

warnings = []


class Warnings(logging.Handler):
    """Collects problems that a client logs instead of raising, such as a result that violates its schema."""

    def emit(self, record):
        warnings.append(record.getMessage())


def transport(description):
    if "url" in description:
        return StreamableHttpTransport(description["url"])
    program, *arguments = description["command"]
    return StdioTransport(program, arguments, env=description.get("env"), keep_alive=False)


def plain(value):
    """The JSON of a model as on the wire, without members that were not set."""
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def call(client, params, **options):
    result = await client.call_tool(params["name"], params.get("arguments"), raise_on_error=False, **options)
    answer = {"content": [plain(block) for block in result.content], "isError": result.is_error}
    if result.structured_content is not None:
        answer["structuredContent"] = result.structured_content
    if result.meta is not None:
        answer["_meta"] = result.meta
    return answer


async def all_of(items):
    return [plain(item) for item in await items]


async def read(client, params):
    return {"contents": [plain(content) for content in await client.read_resource(params["uri"])]}


async def prompt(client, params):
    return plain(await client.get_prompt(params["name"], params.get("arguments")))


STEPS = {
    "tools": lambda client, _: all_of(client.list_tools()),
    "call": call,
    "resources": lambda client, _: all_of(client.list_resources()),
    "templates": lambda client, _: all_of(client.list_resource_templates()),
    "read": read,
    "prompts": lambda client, _: all_of(client.list_prompts()),
    "prompt": prompt,
    "ping": lambda client, _: client.ping(),
}


async def take(client, line):
    request = json.loads(line)
    options, told = {}, []
    if request.pop("progress", False):

        async def progress(done, total, message):
            told.append({"progress": done, "total": total, "message": message})

        options["progress_handler"] = progress
    ((name, argument),) = request.items()
    answer = {"ok": await STEPS[name](client, argument, **options)}
    if options:
        answer["progress"] = told
    return answer


def say(answer):
    if warnings:
        answer["warnings"] = warnings.copy()
        warnings.clear()
    print(json.dumps(answer), flush=True)


def failure(error):
    code = getattr(getattr(error, "error", None), "code", None)
    return {"error": {"name": type(error).__name__, "code": code, "message": str(error)}}


async def sampling(messages, _parameters, _context):
    return f"{len(messages)} messages read"


async def main():
    handler = Warnings(logging.WARNING)
    for name in ("fastmcp", "mcp", "mcp.client"):
        logging.getLogger(name).addHandler(handler)
    description = json.loads(sys.stdin.readline())
    client = Client(
        transport(description),
        mode=description.get("era", "auto"),
        sampling_handler=sampling,
        roots=["file:///nowhere"],
        timeout=60,
        init_timeout=60,
    )
    try:
        async with client:
            about = {
                "server": plain(client.server_info),
                "capabilities": plain(client.server_capabilities),
                "instructions": client.instructions,
                "revision": client.protocol_version,
            }
            say({"ok": about})
            while line := await asyncio.to_thread(sys.stdin.readline):
                try:
                    say(await take(client, line))
                except Exception as error:  # any of them is an answer
                    say(failure(error))
    except Exception as error:
        say(failure(error))
        sys.exit(1)


asyncio.run(main())
