"""A FastMCP server whose tools return one list in pages of each style, with faults: list_server.py [PORT]"""

import asyncio
import json
import sys

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp.types import TextContent

SIZE = 50
server = FastMCP("lists", version="1.0.0")
calls = {}


def row(number):
    return {"id": number, "name": f"record number {number}", "price": number * 1.5, "text": 'é "quoted" \\ \n'}


def rows(start, count):
    return [row(number) for number in range(start, min(start + SIZE, count))]


def page_by_cursor(count, cursor):
    start = int(cursor or 0)
    more = start + SIZE < count
    return {"total": count, "items": rows(start, count), "nextCursor": str(start + SIZE) if more else None}


@server.tool
def by_cursor(count: int, cursor: str | None = None) -> dict:
    """A cursor in the answer and in the arguments."""
    return page_by_cursor(count, cursor)


@server.tool
def by_page(count: int, page: int = 1) -> dict:
    """Page numbers, and the number of all."""
    return {"page": page, "total": count, "results": rows((page - 1) * SIZE, count)}


@server.tool
def by_page_only(count: int, page: int = 1) -> dict:
    """Page numbers, and nothing else."""
    return {"results": rows((page - 1) * SIZE, count)}


@server.tool
def by_offset(count: int, offset: int = 0) -> dict:
    """Offsets, and whether there is more."""
    return {"offset": offset, "has_more": offset + SIZE < count, "records": rows(offset, count)}


@server.tool
def by_link(count: int, page: int = 1) -> dict:
    """The URL of the next page."""
    following = f"https://example.org/rows?count={count}&page={page + 1}" if page * SIZE < count else None
    return {"count": count, "next": following, "results": rows((page - 1) * SIZE, count)}


@server.tool(output_schema=None)
def by_header(count: int, page: int = 1) -> list:
    """A list, and the header of the response that it was made of."""
    links = [f'<https://example.org/rows?page={page - 1}>; rel="prev"'] if page > 1 else []
    links += [f'</rows?page={page + 1}>; rel="next"'] if page * SIZE < count else []
    body = TextContent(type="text", text=json.dumps(rows((page - 1) * SIZE, count)))
    return [TextContent(type="text", text=f"HTTP/1.1 200 OK\nLink: {', '.join(links)}"), body]


@server.tool
def edges(count: int, after: str | None = None) -> dict:
    """A connection of GraphQL."""
    start = int(after or 0)
    end = min(start + SIZE, count)
    info = {"hasNextPage": end < count, "endCursor": str(end)}
    nodes = [{"node": row(number)} for number in range(start, end)]
    return {"data": {"rows": {"totalCount": count, "edges": nodes, "pageInfo": info}}}


@server.tool(output_schema=None)
def in_text(count: int, cursor: str | None = None) -> str:
    """The same as JSON in a text."""
    return json.dumps(page_by_cursor(count, cursor))


@server.tool
def repeats(count: int, cursor: str | None = None) -> dict:
    """From the fourth page on the cursor is that of the second."""
    page = page_by_cursor(count, cursor)
    return page | {"nextCursor": str(SIZE)} if int(cursor or 0) >= 3 * SIZE else page


@server.tool
def ignores(count: int, cursor: str | None = None) -> dict:
    """Whatever the cursor is, the first page, with a new cursor."""
    calls["ignores"] = calls.get("ignores", 0) + 1
    return page_by_cursor(count, None) | {"nextCursor": f"cursor {calls['ignores']}"}


@server.tool
def shrinks(count: int, page: int = 1) -> dict:
    """After three pages the list is empty, and says it were not."""
    return {"total": count, "results": rows((page - 1) * SIZE, count) if page <= 3 else []}


@server.tool
def fails(count: int, cursor: str | None = None) -> dict:
    """The seventh page is an error."""
    if int(cursor or 0) == 6 * SIZE:
        raise ToolError("the database is on holiday")
    return page_by_cursor(count, cursor)


@server.tool
def limited(count: int, cursor: str | None = None) -> dict:
    """Each second call is refused."""
    calls["limited"] = calls.get("limited", 0) + 1
    if calls["limited"] % 2 == 0:
        raise ToolError("429 Too Many Requests, retry-after: 0")
    return page_by_cursor(count, cursor)


@server.tool
async def steady(count: int, cursor: str | None = None) -> dict:
    """Each page takes a moment."""
    await asyncio.sleep(0.05)
    return page_by_cursor(count, cursor)


seen = {"calls": 0, "running": 0, "most": 0}


@server.tool
async def numbered(count: int, page: int = 1, failing: int = 0, total: bool = False) -> dict:
    """Numbered pages, each of which takes a moment; one may fail."""
    seen["calls"] += 1
    seen["running"] += 1
    seen["most"] = max(seen["most"], seen["running"])
    # Later pages are answered first.
    await asyncio.sleep(0.05 + 0.02 * (page % -4))
    seen["running"] -= 1
    if page == failing:
        raise ToolError("the database is on holiday")
    return {"results": rows((page - 1) * SIZE, count)} | ({"total": count} if total else {})


@server.tool
async def uneven(count: int, offset: int = 0) -> dict:
    """Offsets, and pages of different sizes."""
    await asyncio.sleep(0.01)
    page = rows(offset, count)[: SIZE if offset % 3 else SIZE - 7]
    return {"has_more": offset + len(page) < count, "records": page}


@server.tool
def seen_calls() -> dict:
    """The calls of `numbered` since the last time, and the most at a time."""
    found = dict(seen)
    seen.update(calls=0, most=0)
    return found


@server.tool
async def slow(count: int, cursor: str | None = None) -> dict:
    """The second page takes a minute."""
    if cursor:
        await asyncio.sleep(60)
    return page_by_cursor(count, cursor)


@server.tool
def exits(count: int, cursor: str | None = None) -> dict:
    """The server ends at the third page."""
    if int(cursor or 0) == 2 * SIZE:
        sys.stdout.flush()
        import os

        os._exit(1)
    return page_by_cursor(count, cursor)


if len(sys.argv) > 1:
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
else:
    server.run("stdio", show_banner=False)
