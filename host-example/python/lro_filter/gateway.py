"""Filters the results that a gateway gets from its servers: what `litellm` and `contextforge` share."""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any

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

    async def replacement(self, result: dict, tool: str, arguments: Mapping | None) -> dict | None:
        """What goes on in place of a result, both as the JSON data of a `CallToolResult`; `None` if it passes.

        The results of tools named `lro_…` pass: they were read from an offload.
        """
        if not self._settings.enabled or tool.startswith("lro_"):
            return None
        return await asyncio.to_thread(self._replacement, result, tool, arguments)

    def _replacement(self, result: dict, tool: str, arguments: Mapping | None) -> dict | None:
        try:
            query = None if arguments is None else to_json(arguments)
            reply = self._filter.apply(to_json(result), tool, query=query, abilities=self._abilities)
        except ResultError as error:
            try:
                return not_json(error, tool, self._settings, None)
            except Rejected as rejected:
                return {"content": [{"type": "text", "text": str(rejected)}], "isError": True}
        return None if reply["outcome"] == "pass" else json.loads(reply["tool-result"])
