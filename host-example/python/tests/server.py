"""A FastMCP server for the tests: `server.py SETTINGS DIRECTORY`, settings of the middleware as JSON."""

import asyncio
import base64
import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import ToolResult
from mcp_types import EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from pydantic import BaseModel, ConfigDict

sys.path.insert(0, str(Path(__file__).parents[1]))

from lro_filter import lro_offload
from lro_filter.middleware import LROMiddleware
from support import POLICY, rows


class Owner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int
    name: str
    score: float
    owner: Owner


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str
    rows: list[Row]


class Tree(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: int
    children: list["Tree"]


def make(settings: dict, directory: Path) -> FastMCP:
    """The server; the decorated tool writes to `directory`."""
    mcp = FastMCP("tests")
    mcp.add_middleware(LROMiddleware(**{"component": POLICY, **settings}))

    @mcp.tool
    def records(count: int) -> dict:
        return {"query": "q", "results": rows(count)}

    @mcp.tool
    def table(count: int) -> Table:
        return Table(title="t", rows=rows(count))

    @mcp.tool
    def listing(count: int) -> list[Row]:
        return [Row(**row) for row in rows(count)]

    @mcp.tool
    def tree(depth: int) -> Tree:
        return Tree(value=depth, children=[tree(depth - 1)] * 3 if depth else [])

    @mcp.tool
    def words(count: int) -> str:
        return "word " * count

    @mcp.tool(output_schema=None)
    def plain(count: int) -> ToolResult:
        """Records as text alone."""
        return ToolResult([TextContent(type="text", text=json.dumps(rows(count)))])

    @mcp.tool
    def mixed(size: int) -> ToolResult:
        """One block of each kind."""
        image = base64.b64encode(bytes(range(256)) * (size // 256)).decode()
        page = TextResourceContents(uri="file:///a.csv", mime_type="text/csv", text="a,b\n1,2\n" * (size // 8))
        blocks = [
            TextContent(type="text", text="A caption."),
            ImageContent(type="image", data=image, mime_type="image/png"),
            EmbeddedResource(type="resource", resource=page),
            ResourceLink(type="resource_link", uri="file:///b", name="b"),
        ]
        return ToolResult(blocks, meta={"trace": "t-1"})

    @mcp.tool
    def failing(size: int) -> str:
        raise ToolError("failed " * (size // 7))

    @mcp.tool
    def error(size: int) -> ToolResult:
        return ToolResult([TextContent(type="text", text="failed " * (size // 7))], is_error=True)

    @mcp.tool
    async def ping() -> str:
        await asyncio.sleep(0)
        return "pong"

    @mcp.tool
    @lro_offload(component=POLICY, output_dir=str(directory))
    def decorated(count: int) -> list[Row]:
        return rows(count)

    return mcp


if __name__ == "__main__":
    make(json.loads(sys.argv[1]), Path(sys.argv[2])).run(show_banner=False)
