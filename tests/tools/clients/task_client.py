"""Obtains the result of a slow tool by task with the Python SDK 1.x, cancels another call of it, and prints what it saw.

    task_client.py '{"server": {"command": […], "env": {…}} or {"url": …}, "tool": …, "arguments": {…}}'
"""

import asyncio
import contextlib
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult


def transport(server):
    if "url" in server:
        return streamable_http_client(server["url"])
    program, *arguments = server["command"]
    return stdio_client(StdioServerParameters(command=program, args=arguments, env=server["env"]))


async def main(request):
    async with contextlib.AsyncExitStack() as stack:
        read, write, *_ = await stack.enter_async_context(transport(request["server"]))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        tasks = session.experimental
        begun = await tasks.call_tool_as_task(request["tool"], request["arguments"])
        statuses = [begun.task.status]
        async for task in tasks.poll_task(begun.task.taskId):
            statuses.append(task.status)
        result = await tasks.get_task_result(begun.task.taskId, CallToolResult)
        another = await tasks.call_tool_as_task(request["tool"], request["arguments"])
        cancelled = await tasks.cancel_task(another.task.taskId)
        listed = {task.taskId for task in (await tasks.list_tasks()).tasks}
        told = {
            "first": statuses[0],
            "last": statuses[-1],
            "text": result.content[0].text,
            "cancelled": cancelled.status,
            "listed": listed == {begun.task.taskId, another.task.taskId},
        }
        print(json.dumps(told))


asyncio.run(main(json.loads(sys.argv[1])))
