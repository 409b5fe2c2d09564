"""A FastMCP client that calls the server in this directory and runs a recipe of the reply. It needs `jq`."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import PythonStdioTransport


async def main() -> None:
    # Pass the environment, so that the server sees the variables MCP_LRO_*.
    server = PythonStdioTransport(Path(__file__).with_name("server.py"), env=dict(os.environ))
    async with Client(server) as client:
        result = await client.call_tool("orders", {"count": 10_000})
        descriptor = json.loads(result.content[0].text)
        size = sum(Path(path).stat().st_size for path in descriptor["files"].values())
        print(f"the reply has {len(result.content[0].text)} characters, the files {size} bytes")
        print("fields:", ", ".join(descriptor["schemas"]["orders"]["properties"]))
        name, command = next(iter(descriptor["jq_recipes"].items()))
        print(f"{name}: {command}")
        print(subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout[:200])
        small = await client.call_tool("orders", {"count": 3})
        print("a small result:", small.structured_content["orders"][0])


asyncio.run(main())
