"""FastMCP middleware that filters the results of all tools of a server by the policy.

    from lro_filter.middleware import LROMiddleware
    mcp.add_middleware(LROMiddleware())

It needs the extra `fastmcp`.
"""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as mt
import pydantic_core
from fastmcp.resources import ResourceContent, ResourceResult, ResourceTemplate
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp.shared.exceptions import MCPError

from .component import Message
from .errors import ReadError, Rejected, ResultError, StoreError
from .filter import Filter, not_json
from .reader import GUIDANCE, TEMPLATE, TOOLS, Reader
from .settings import Settings
from .wire import wire_form

__all__ = ["LROMiddleware"]

OWN_TOOLS = {"extract-tool": "lro_extract", "read-tool": "lro_read"}
"""Tools of the middleware, by the ability of the setting `abilities`."""


class LROMiddleware(Middleware):
    """Offloads, truncates or rejects tool results that are too large, as the policy decides.

    A result that passes is the same object as before. The policy runs in a thread and does not block other requests.

    Adds the tools `lro_extract` and `lro_read`, instructions about them, and the resources `lro://HANDLE/SECTION`, with which
    clients ask about offloads and read them. The setting `abilities` says which tools there are; without either there is nothing
    of this. By default there are both, and the shell is offered as well, but over HTTP. A server that lists a tool of such a name
    itself keeps it: those of the middleware are not listed then, and no descriptor offers them.

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
        is_given = settings.get("abilities") is not None or f"{env_prefix}_ABILITIES" in os.environ
        self.settings = Settings.read(env_prefix, **settings)
        self._tools = None if tools is None else set(tools)
        self._filter = Filter(self.settings, component, sha256=sha256, watch=watch)
        self._abilities = tuple(self.settings.abilities) if is_given else None
        has = OWN_TOOLS if self._abilities is None else self._abilities
        self._own = {tool for ability, tool in OWN_TOOLS.items() if self.settings.enabled and ability in has}
        if self._own:
            self._reader = Reader(self.settings.limits)
        # Whether the server has a tool of such a name itself, as its list shows.
        self._has_conflict = False

    def swap(self, component: str | Path | bytes, *, sha256: str | None = None, allow_older: bool = False) -> str:
        """Uses another policy for the results from now on, and returns its SHA-256. Blocks while it is compiled.

        A result that the policy before has begun stays with it to its end. `allow_older` takes one whose signature states an
        earlier version.

        Raises:
            ComponentError: It cannot be used: nothing changes.
        """
        return self._filter.swap(component, sha256=sha256, allow_older=allow_older)

    async def on_call_tool(
        self, context: MiddlewareContext[mt.CallToolRequestParams], call_next: CallNext[mt.CallToolRequestParams, Any]
    ) -> Any:
        """Filters the result of a call. Input requests to the client and task acknowledgements pass."""
        if context.message.name in self._own and self._is_own(context.message):
            return await anyio.to_thread.run_sync(self._called, context.message)
        result = await call_next(context)
        is_result = isinstance(result, ToolResult) and not isinstance(result, InputRequiredToolResult)
        if not is_result or not self._applies(context.message.name):
            return result
        transport = context.fastmcp_context.transport if context.fastmcp_context else None
        return await anyio.to_thread.run_sync(self._filtered, context.message, result, transport)

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Widens output schemas by the replacement of a result, so that clients that validate accept both."""
        listed = self._listed(await call_next(context))
        self._has_conflict |= any(tool.name in self._own for tool in listed)
        if self._has_conflict:
            return listed
        own = [_tool(definition) for definition in TOOLS if definition["name"] in self._own]
        return [*listed, *own] if own else listed

    async def on_list_resource_templates(
        self,
        context: MiddlewareContext[mt.ListResourceTemplatesRequest],
        call_next: CallNext[mt.ListResourceTemplatesRequest, Sequence[ResourceTemplate]],
    ) -> Sequence[ResourceTemplate]:
        """Adds the template of the resources."""
        listed = await call_next(context)
        return [*listed, _template(TEMPLATE)] if self._own else listed

    async def on_read_resource(
        self,
        context: MiddlewareContext[mt.ReadResourceRequestParams],
        call_next: CallNext[mt.ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """Reads a section of an offload."""
        uri = str(context.message.uri)
        if self._own and uri.startswith("lro://"):
            found = await anyio.to_thread.run_sync(self._read, uri)
            if found is not None:
                return found
        return await call_next(context)

    async def on_initialize(
        self,
        context: MiddlewareContext[mt.InitializeRequest],
        call_next: CallNext[mt.InitializeRequest, mt.InitializeResult | None],
    ) -> mt.InitializeResult | None:
        """Adds instructions about the tools for the model."""
        return self._instructed(await call_next(context))

    async def on_discover(
        self,
        context: MiddlewareContext[mt.DiscoverRequest],
        call_next: CallNext[mt.DiscoverRequest, mt.DiscoverResult | dict[str, Any]],
    ) -> mt.DiscoverResult | dict[str, Any]:
        """Adds instructions about the tools for the model."""
        return self._instructed(await call_next(context))

    def _instructed(self, greeting: Any) -> Any:
        if greeting is None or not self._own:
            return greeting
        is_plain = isinstance(greeting, dict)
        given = greeting.get("instructions") if is_plain else greeting.instructions
        instructions = "\n\n".join(filter(None, [given, GUIDANCE]))
        if is_plain:
            return greeting | {"instructions": instructions}
        return greeting.model_copy(update={"instructions": instructions})

    def _is_own(self, request: mt.CallToolRequestParams) -> bool:
        """Whether a call is for the tool of the middleware: of two with one name, it has those about its offloads."""
        if not self._has_conflict:
            return True
        handle = (request.arguments or {}).get("handle")
        try:
            return isinstance(handle, str) and self._filter.store.find(handle) is not None
        except StoreError:
            return False

    def _called(self, request: mt.CallToolRequestParams) -> ToolResult:
        try:
            result = self._reader.call(self._filter.store, request.name, json.dumps(request.arguments or {}))
        except (ReadError, StoreError) as error:
            return ToolResult([mt.TextContent(type="text", text=str(error))], None, None, True)
        found = mt.CallToolResult.model_validate(result)
        return ToolResult(found.content, found.structured_content, found.meta, bool(found.is_error))

    def _read(self, uri: str) -> ResourceResult | None:
        try:
            result = self._reader.resource(self._filter.store, uri)
        except (ReadError, StoreError) as error:
            raise MCPError(code=mt.INVALID_PARAMS, message=str(error)) from error
        if result is None:
            return None
        contents = [
            ResourceContent(
                base64.b64decode(content["blob"]) if "blob" in content else content["text"],
                mime_type=content.get("mimeType"),
            )
            for content in result["contents"]
        ]
        return ResourceResult(contents, meta=result.get("_meta"))

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

    def _filtered(self, request: mt.CallToolRequestParams, result: ToolResult, transport: str | None) -> ToolResult:
        try:
            wire = Message(_dump(wire_form(result)))
        except ResultError as error:
            try:
                return not_json(error, request.name, self.settings, result)
            except Rejected as rejected:
                return ToolResult([mt.TextContent(type="text", text=str(rejected))], None, None, True)
        query = None if request.arguments is None else _dump(request.arguments).decode()
        # Over HTTP a client may be on another machine.
        usual = tuple(OWN_TOOLS) if transport in ("sse", "streamable-http") else ("shell", *OWN_TOOLS)
        abilities = usual if self._abilities is None else self._abilities
        if self._has_conflict:
            abilities = [ability for ability in abilities if ability not in OWN_TOOLS]
        reply = self._filter.apply(wire, request.name, query=query, abilities=abilities)
        if reply["outcome"] == "pass":
            return result
        replaced = mt.CallToolResult.model_validate_json(reply["tool-result"])
        return ToolResult(replaced.content, replaced.structured_content, replaced.meta, bool(replaced.is_error))


def _tool(definition: dict) -> Tool:
    return Tool(
        name=definition["name"],
        title=definition["title"],
        description=definition["description"],
        parameters=definition["inputSchema"],
    )


def _template(definition: dict) -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=definition["uriTemplate"],
        name=definition["name"],
        title=definition["title"],
        description=definition["description"],
        parameters={},
    )


def _dump(value: Any) -> bytes:
    """JSON as FastMCP sends it."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise ResultError(f"the result is not JSON: {error}") from error
