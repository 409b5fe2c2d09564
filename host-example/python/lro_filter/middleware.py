"""FastMCP middleware that filters the results of all tools of a server by the policy.

    from lro_filter.middleware import LROMiddleware
    mcp.add_middleware(LROMiddleware())

It needs the extra `fastmcp`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as mt
import pydantic_core
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult

from .errors import ResultError
from .filter import Decision, Filter
from .output_schema import or_replacement
from .parts import ToolResult as TakenApart
from .parts import parse
from .settings import Settings
from .truncate import truncated

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
        return [self._listed(tool) for tool in await call_next(context)]

    def _applies(self, tool: str) -> bool:
        return self.settings.enabled and (self._tools is None or tool in self._tools)

    def _listed(self, tool: Tool) -> Tool:
        if tool.output_schema is None or not self._applies(tool.name):
            return tool
        schema = None if self.settings.schema == "strip" else or_replacement(tool.output_schema)
        return tool.model_copy(update={"output_schema": schema})

    def _filtered(self, request: mt.CallToolRequestParams, result: ToolResult) -> ToolResult:
        try:
            parsed = parse(result.content, result.structured_content, result.meta, result.is_error, _dump)
        except ResultError as error:
            return self._replied(result, None, self._filter.failed(error, request.name))
        query = None if request.arguments is None else _dump(request.arguments).decode()
        decision = self._filter.apply(parsed.parts, request.name, query=query, is_error=result.is_error)
        return self._replied(result, parsed, decision)

    def _replied(self, result: ToolResult, parsed: TakenApart | None, decision: Decision) -> ToolResult:
        match decision.verdict:
            case "pass":
                return result
            case "offload":
                content, structured, meta = parsed.offloaded(decision.text, decision.plan)
            case "truncate":
                cut = decision.cut
                content, structured = truncated(parsed, cut["limit"], cut["suffix"], decision.text)
                meta = None
            case _:
                content, structured, meta = [{"type": "text", "text": decision.text}], None, None
        is_error = result.is_error or decision.verdict in ("reject", "fail")
        content = [mt.TextContent(**block) if isinstance(block, dict) else block for block in content]
        return ToolResult(content, structured, meta, is_error)


def _dump(value: Any) -> bytes:
    """JSON as FastMCP sends it."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise ResultError(f"the result is not JSON: {error}") from error
