"""The tools `lro_extract` and `lro_read`, and offloads as resources, answered by the component of `guest/reader`."""

import json
import threading
import time
from pathlib import Path
from typing import Any

from wasmtime import WasiConfig

from .component import Component, Limits, own_component
from .errors import PolicyError, ReadError
from .store import Store

__all__ = ["GUIDANCE", "TEMPLATE", "TOOLS", "Reader"]

INTERFACE = "lro:adapter/reading@0.1.0"
MISSING_RESOURCE = -32002

BOUNDS = {"answer-bytes": 20_000, "answer-tokens": 8_000, "page-bytes": 1 << 20}
"""Most that an answer may have, with the defaults of the host: bytes and estimated tokens of results, bytes of a page."""

_SHOWN: dict[str, Any] = json.loads(Path(__file__).with_name("reading.json").read_text("utf-8"))

TOOLS: list[dict] = _SHOWN["tools"]
"""The definitions of the tools, as in `tools/list`."""

GUIDANCE: str = _SHOWN["guidance"]
"""Instructions about the tools for the model."""

TEMPLATE: dict = _SHOWN["template"]
"""The template of the resources, as in `resources/templates/list`."""

_COMPILED: list[Component] = []
_COMPILING = threading.Lock()


class Reader:
    """Reads the offloads of a store. Calls may run in several threads. The component is compiled in the background, once in a
    process."""

    def __init__(self, limits: Limits):
        self._limits = limits
        # A first call then waits for less.
        threading.Thread(target=_component, name="lro-reader", daemon=True).start()

    def call(self, store: Store, tool: str, arguments: str) -> dict:
        """The result of a call of a tool, whose arguments are a JSON object. Blocks.

        Raises:
            ReadError: A protocol error.
        """
        try:
            return self._about(store, self._ask("handles", tool, arguments), "call", tool, arguments)
        except PolicyError as error:
            text = str(error).replace("the policy", "the question", 1)
            return {"content": [{"type": "text", "text": f"{text}: ask for less"}], "isError": True}

    def resource(self, store: Store, uri: str) -> dict | None:
        """The result of `resources/read`; `None` if the URI is not one of a section. Blocks.

        Raises:
            ReadError: There is no such resource.
        """
        handle = self._ask("resource-handle", uri)
        if handle is None:
            return None
        try:
            return self._about(store, [handle], "read-resource", uri, False)
        except PolicyError as error:
            raise ReadError(MISSING_RESOURCE, str(error)) from error

    def _about(self, store: Store, handles: list[str], name: str, *arguments: Any) -> dict:
        wasi, offloads = WasiConfig(), []
        for handle in handles:
            if found := store.find(handle):
                path, expires = found
                wasi.preopen_dir(str(path), handle, fs_mutable=False)
                offloads.append({"handle": handle, "expires": int(expires * 1000), "intact": False})
        caller = {
            "tenant": store.tenant,
            "offloads": offloads,
            "now": time.time_ns() // 1_000_000,
            "cursor-key": list(store.cursor_key()),
            **BOUNDS,
        }
        answer = _component().call(name, self._limits, wasi, caller, *arguments)
        if "err" in answer:
            raise ReadError(answer["err"]["code"], answer["err"]["message"])
        return json.loads(answer["ok"])

    def _ask(self, name: str, *arguments: Any) -> Any:
        return _component().call(name, self._limits, WasiConfig(), *arguments)


def _component() -> Component:
    with _COMPILING:
        if not _COMPILED:
            _COMPILED.append(Component(own_component("lro_reader.wasm"), INTERFACE))
        return _COMPILED[0]
