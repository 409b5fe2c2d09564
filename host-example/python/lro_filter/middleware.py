"""FastMCP middleware that filters the results of all tools of a server by the policy.

    from lro_filter.middleware import LROMiddleware
    mcp.add_middleware(LROMiddleware())

It needs the extra `fastmcp`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as mt
import pydantic_core
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult

from .errors import Rejected, ResultError
from .filter import Filter, not_json
from .settings import Settings

__all__ = ["LROMiddleware"]


class LROMiddleware(Middleware):
    """Offloads, truncates or rejects tool results that are too large, as the policy decides.

    A result that passes is the same object as before. The policy runs in a thread and does not block other requests.

    Args:
        tools: Names of the tools; `None` for all.
        env_prefix: Prefix of the environment variables with settings.
        component: Another policy: its path, or its bytes.
        sha256: The digest that it must have, in hexadecimal digits.
        watch: Whether another policy in the file `component` takes its place.
        settings: Any setting by its name, such as `threshold`, `dir`, `level`.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """

    def __init__(
        self,
        *,
        tools: Sequence[str] | None = None,
        env_prefix: str = "MCP_LRO",
        component: str | Path | bytes | None = None,
        sha256: str | None = None,
        watch: bool = False,
        **settings: Any,
    ):
        self.settings = Settings.read(env_prefix, **settings)
        self._tools = None if tools is None else set(tools)
        self._filter = Filter(self.settings, component, sha256=sha256, watch=watch)

    def swap(self, component: str | Path | bytes, *, sha256: str | None = None) -> str:
        """Uses another policy for the results from now on, and returns its SHA-256. Blocks while it is compiled.

        A result that the policy before has begun stays with it to its end.

        Raises:
            ComponentError: It cannot be used: nothing changes.
        """
        return self._filter.swap(component, sha256=sha256)

    async def on_call_tool(
        self, context: MiddlewareContext[mt.CallToolRequestParams], call_next: CallNext[mt.CallToolRequestParams, Any]
    ) -> Any:
        """Filters the result of a call. Input requests to the client and task acknowledgements pass."""
        result = await call_next(context)
        is_result = isinstance(result, ToolResult) and not isinstance(result, InputRequiredToolResult)
        if not is_result or not self._applies(context.message.name):
            return result
        return await anyio.to_thread.run_sync(self._filtered, context.message, result)

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Widens output schemas by the replacement of a result, so that clients that validate accept both."""
        return self._listed(await call_next(context))

    def _applies(self, tool: str) -> bool:
        return self.settings.enabled and (self._tools is None or tool in self._tools)

    def _listed(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        given = {tool.name: tool.output_schema for tool in tools if self._applies(tool.name)}
        listed = [{"name": name, "outputSchema": schema} for name, schema in given.items() if schema is not None]
        if not listed:
            return tools
        settings = json.dumps({"schema": self.settings.schema})
        changed = json.loads(self._filter.policy.tools_list(settings, json.dumps({"tools": listed})))["tools"]
        schemas = {tool["name"]: tool.get("outputSchema") for tool in changed}
        return [
            tool.model_copy(update={"output_schema": schemas[tool.name]}) if tool.name in schemas else tool
            for tool in tools
        ]

    def _filtered(self, request: mt.CallToolRequestParams, result: ToolResult) -> ToolResult:
        try:
            wire = _dump(_wire(result))
        except ResultError as error:
            try:
                return not_json(error, request.name, self.settings, result)
            except Rejected as rejected:
                return ToolResult([mt.TextContent(type="text", text=str(rejected))], None, None, True)
        query = None if request.arguments is None else _dump(request.arguments)
        reply = self._filter.apply(wire, request.name, query=query)
        if reply["outcome"] == "pass":
            return result
        replaced = mt.CallToolResult.model_validate_json(reply["tool-result"])
        return ToolResult(replaced.content, replaced.structured_content, replaced.meta, bool(replaced.is_error))


def _wire(result: ToolResult) -> dict:
    """The result as a `CallToolResult`."""
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    members = {"content": blocks, "structuredContent": result.structured_content, "_meta": result.meta}
    wire = {name: value for name, value in members.items() if value is not None}
    return wire | {"isError": True} if result.is_error else wire


def _dump(value: Any) -> str:
    """JSON as FastMCP sends it."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null").decode()
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise ResultError(f"the result is not JSON: {error}") from error
