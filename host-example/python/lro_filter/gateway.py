"""Filters the results that a gateway gets from its servers: what `litellm`, `contextforge` and `agentgateway` share."""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any

from .component import Message
from .errors import Rejected, ResultError
from .filter import Filter, not_json
from .settings import Settings
from .sizes import to_json

__all__ = ["GatewayFilter"]

READING_TOOLS = ("extract-tool", "read-tool")
"""Default of the setting `abilities`: clients of a gateway may be on another machine, and `lro serve` is one of its servers."""


class GatewayFilter:
    """Filters results by the policy, in a thread.

    Args:
        config: Any setting by its name, and `component`, `sha256`, `watch` as `LROMiddleware` has them. What is missing comes
            from the environment, as `MCP_LRO_…`.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """

    def __init__(self, config: Mapping[str, Any] | None):
        config = dict(config or {})
        policy = {name: config.pop(name) for name in ("component", "sha256", "watch") if name in config}
        is_given = config.get("abilities") is not None or "MCP_LRO_ABILITIES" in os.environ
        self._abilities = None if is_given else READING_TOOLS
        self._settings = Settings.read(**config)
        self._filter = Filter(self._settings, **policy)

    async def replacement(self, result: dict | str, tool: str, arguments: Mapping | str | None) -> str | None:
        """What goes on in place of a result, as JSON; `None` if it passes.

        `result` is a `CallToolResult`, and `arguments` are those of the call: JSON, or its data. The results of tools named
        `lro_…` pass: they were read from an offload.
        """
        if not self._settings.enabled or tool.startswith("lro_"):
            return None
        return await asyncio.to_thread(self._replacement, result, tool, arguments)

    def tools_list(self, result: str) -> str:
        """The result of `tools/list`, as JSON, with output schemas that allow what takes the place of a result. Blocks.

        Raises:
            ResultError: It is not one.
        """
        return self._filter.policy.tools_list(json.dumps({"schema": self._settings.schema}), result)

    def _replacement(self, result: dict | str, tool: str, arguments: Mapping | str | None) -> str | None:
        try:
            query = None if arguments is None else _json(arguments).decode()
            reply = self._filter.apply(Message(_json(result)), tool, query=query, abilities=self._abilities)
        except ResultError as error:
            try:
                return not_json(error, tool, self._settings, None)
            except Rejected as rejected:
                return to_json({"content": [{"type": "text", "text": str(rejected)}], "isError": True}).decode()
        return None if reply["outcome"] == "pass" else reply["tool-result"]


def _json(value: Mapping | str) -> bytes:
    """JSON, given as text or as its data.

    Raises:
        ResultError: It has no form in UTF-8.
    """
    try:
        return value.encode() if isinstance(value, str) else to_json(value)
    except UnicodeEncodeError as error:
        raise ResultError(f"the result is not JSON: {error}") from error
