"""Tool results of Python's MCP packages, as they are sent."""

from typing import Any

__all__ = ["wire_form"]


def wire_form(result: Any) -> dict:
    """A result of FastMCP or of version 2 of the official SDK, as the JSON data of a `CallToolResult`."""
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    members = {"content": blocks, "structuredContent": result.structured_content, "_meta": result.meta}
    wire = {name: value for name, value in members.items() if value is not None}
    return wire | {"isError": True} if result.is_error else wire
