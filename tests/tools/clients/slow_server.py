"""A FastMCP server with a slow tool."""

import asyncio

from fastmcp import FastMCP

server = FastMCP("slow", version="1.0.0")


@server.tool
async def slow(seconds: float) -> str:
    """Answers after this many seconds."""
    await asyncio.sleep(seconds)
    return f"slept for {seconds:g} s"


server.run(show_banner=False)
