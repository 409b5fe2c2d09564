"""A FastMCP server with paginated lists, on stdio or over HTTP: paged_server.py [PORT]"""

import sys

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("paged", version="1.0.0", instructions="Ask for rows.", list_page_size=3)


@server.tool
def rows(count: int) -> list[dict]:
    """Rows with a number and its square. The result is a list, which FastMCP wraps into an object."""
    return [{"number": number, "square": number * number, "even": number % 2 == 0} for number in range(count)]


@server.tool
def table(count: int) -> dict:
    """The same rows in an object."""
    return {"rows": rows(count), "count": count}


@server.tool
def refuse(length: int) -> str:
    """An error with a text of this length."""
    raise ToolError("no " * (length // 3))


def offer(number):
    """One tool, resource, template and prompt for a number: more of each than a page holds."""

    @server.tool(name=f"number_{number}")
    def tool() -> int:
        return number

    @server.resource(f"numbers://{number}", name=f"number {number}")
    def resource() -> str:
        return str(number)

    @server.resource(f"numbers://{number}/{{power}}", name=f"powers of {number}")
    def template(power: str) -> str:
        return str(number ** int(power))

    @server.prompt(name=f"say_{number}")
    def prompt() -> str:
        return f"Say {number}."


for number in range(5):
    offer(number)

if len(sys.argv) > 1:
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False)
else:
    server.run("stdio", show_banner=False)
