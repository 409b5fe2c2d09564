"""A guardrail for LiteLLM that filters what MCP tools answer by the policy. In LiteLLM's configuration:

    guardrails:
      - guardrail_name: lro
        litellm_params:
          guardrail: lro_filter.litellm.LROGuardrail
          mode: post_mcp_call
          default_on: true
          lro: { threshold: 30000 }

It runs in the hook `async_post_mcp_tool_call_hook`, which gets whole results: guardrails with `apply_guardrail` get
texts alone.
"""

from collections.abc import Mapping
from typing import Any

from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.types.guardrails import GuardrailEventHooks
from mcp.types import CallToolResult

from .gateway import GatewayFilter
from .wire import wire_form

__all__ = ["LROGuardrail"]


class LROGuardrail(CustomGuardrail):
    """Offloads, truncates or rejects results of MCP tools that are too large, as the policy decides.

    A result that had structured content arrives without it, as an error of the tool: LiteLLM marks every replaced one so, as
    clients compare structured content with the output schema of the server.

    Args:
        lro: Any setting of this package by its name, and `component`, `sha256`, `watch`.
        litellm_params: What LiteLLM gives to its guardrails.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """

    def __init__(self, lro: Mapping[str, Any] | None = None, **litellm_params: Any):
        super().__init__(**litellm_params)
        self._filter = GatewayFilter(lro)

    async def async_post_mcp_tool_call_hook(self, kwargs: dict, response_obj: Any, start_time: Any, end_time: Any) -> Any:
        """Replaces the content of a large result."""
        if not self.should_run_guardrail(kwargs, GuardrailEventHooks.post_mcp_call):
            return None
        # The hook gets the content alone; here is the result that LiteLLM goes on with.
        result: CallToolResult = kwargs["original_response"]
        call = kwargs.get("mcp_tool_call_metadata") or {}
        replacement = await self._filter.replacement(wire_form(result), call.get("name", "tool"), call.get("arguments"))
        if replacement is None:
            return None
        replaced = CallToolResult.model_validate_json(replacement)
        result.is_error = replaced.is_error
        response_obj.mcp_tool_call_response = replaced.content
        return response_obj
