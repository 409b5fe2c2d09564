"""A plugin for ContextForge that filters what tools answer by the policy. In the gateway's `plugins/config.yaml`:

    plugins:
      - name: lro
        kind: lro_filter.contextforge.LROPlugin
        hooks: [tool_pre_invoke, tool_post_invoke]
        config: { threshold: 30000 }
"""

import json
from typing import Any

from cpex.framework import (
    Plugin,
    PluginConfig,
    PluginContext,
    ToolPostInvokePayload,
    ToolPostInvokeResult,
    ToolPreInvokePayload,
    ToolPreInvokeResult,
)
from cpex.framework.constants import TOOL_METADATA
from jsonschema import Draft202012Validator
from mcp.types import CallToolResult
from referencing import Registry
from referencing.exceptions import Unresolvable

from .gateway import GatewayFilter

__all__ = ["LROPlugin"]


class LROPlugin(Plugin):
    """Offloads, truncates or rejects results of tools that are too large, as the policy decides.

    The gateway lists the output schemas of its servers as they are. A descriptor that the schema of its tool does not allow
    arrives as an error of the tool, which no client compares with it.

    The `config` has any setting of this package by its name, and `component`, `sha256`, `watch`.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """

    def __init__(self, config: PluginConfig):
        super().__init__(config)
        self._filter = GatewayFilter(config.config)

    async def tool_pre_invoke(self, payload: ToolPreInvokePayload, context: PluginContext) -> ToolPreInvokeResult:
        """Keeps the arguments for `tool_post_invoke`. The gateway also tells what tool it is only where this hook is on."""
        context.state["arguments"] = payload.args
        return ToolPreInvokeResult()

    async def tool_post_invoke(self, payload: ToolPostInvokePayload, context: PluginContext) -> ToolPostInvokeResult:
        """Replaces a large result."""
        tool = context.global_context.metadata.get(TOOL_METADATA)
        # The gateway's own name has that of the server before it, and other letters.
        name = getattr(tool, "original_name", None) or payload.name
        replacement = await self._filter.replacement(_wire(payload.result), name, context.state.get("arguments"))
        if replacement is None:
            return ToolPostInvokeResult()
        replaced = json.loads(replacement)
        if not _is_allowed(replaced.get("structuredContent"), getattr(tool, "output_schema", None)):
            replaced |= {"structuredContent": None, "isError": True}
        return ToolPostInvokeResult(modified_payload=payload.model_copy(update={"result": replaced}))


def _wire(result: dict) -> dict:
    """A result as it is sent: the gateway's form has members that are `None`."""
    blocks = CallToolResult.model_validate(result).content
    members = {name: result[name] for name in ("structuredContent", "_meta", "isError") if result.get(name) is not None}
    return {"content": [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks], **members}


def _is_allowed(structured: Any, schema: dict | None) -> bool:
    """Whether a client that compares structured content with the output schema of the tool accepts it."""
    if not schema:
        return True
    try:
        # With a registry of its own, as the default one fetches what a schema refers to.
        return structured is not None and Draft202012Validator(schema, registry=Registry()).is_valid(structured)
    except Unresolvable:
        return False
