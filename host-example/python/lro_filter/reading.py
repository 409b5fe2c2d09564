"""Lazy iterators: over the records of an offload, and over lists that come in pages."""

import asyncio
import json

from .errors import ListError

__all__ = ["list_items", "records"]

# Bytes of lines that are read at once.
BLOCK_BYTES = 1 << 20


async def records(path):
    """Yields the records of a JSONL file of an offload, in order, without the header line before them.

    Reads a megabyte of lines at a time, in a thread, so memory does not depend on the size of the file.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        await asyncio.to_thread(file.readline)
        while lines := await asyncio.to_thread(file.readlines, BLOCK_BYTES):
            for line in lines:
                yield json.loads(line)


async def list_items(fetch, member):
    """Yields the items of all pages of a list, such as the tools of a server.

        async for tool in list_items(lambda cursor: session.list_tools(cursor=cursor), "tools"):

    `fetch` gets the cursor of a page, `None` for the first one, and returns its result: an object of an SDK, or a
    `dict`. `member` names the list in it. A page is fetched when the one before it is used up.

    Raises `ListError` where the server repeats a cursor, as its list would never end.
    """
    cursor, followed = None, set()
    while True:
        page = await fetch(cursor)
        for item in _member(page, member) or ():
            yield item
        cursor = _member(page, "nextCursor", "next_cursor")
        if cursor is None:
            return
        if cursor in followed:
            raise ListError(f"the server repeats the cursor {cursor!r}: its list would never end")
        followed.add(cursor)


def _member(page, *names):
    """A member of a page under the first of its names that it has."""
    for name in names:
        value = page.get(name) if isinstance(page, dict) else getattr(page, name, None)
        if value is not None:
            return value
    return None
