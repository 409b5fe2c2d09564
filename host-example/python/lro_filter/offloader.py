"""Interfaces for the code of a tool: an object, a decorator and a context manager.

Each takes `sections`, `inline_keys`, `threshold`, `output_dir`, `ttl_seconds`, `enabled`, `header_type` and
`env_prefix`, any other setting by its name, `component`, another policy as its path or its bytes, `sha256`, the digest that it
must have, and `watch`, whether another policy in the file `component` takes its place.
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from .component import Message
from .errors import Rejected, ResultError
from .filter import Filter, not_json
from .settings import OffloadSection, Settings, given
from .sizes import measured, to_json

__all__ = ["LROContext", "LROOffloader", "lro_offload"]

Sections = Sequence[OffloadSection | str]


class LROOffloader:
    """Offloads values that are too large. Can be shared by calls and threads.

    Raises:
        SettingsError: A setting is invalid.
        ComponentError: The policy cannot be loaded.
    """

    def __init__(
        self,
        threshold: int | None = None,
        output_dir: str | Path | None = None,
        header_type: str | None = None,
        env_prefix: str = "MCP_LRO",
        enabled: bool | None = None,
        ttl_seconds: int | None = None,
        *,
        component: str | Path | bytes | None = None,
        sha256: str | None = None,
        watch: bool = False,
        **settings: Any,
    ):
        self.settings = Settings.read(
            env_prefix,
            **{"dir": output_dir, **settings},
            threshold=threshold,
            header_type=header_type,
            enabled=enabled,
            ttl_seconds=ttl_seconds,
        )
        self._filter = Filter(self.settings, component, sha256=sha256, watch=watch)

    def offload_if_needed(
        self,
        data: Any,
        sections: Sections | None = None,
        inline_keys: Sequence[str] | None = None,
        session_id: str | None = None,
        *,
        tool: str = "tool",
        query: str | None = None,
    ) -> Any:
        """`data` itself when it passes, else its descriptor, or a part of it with a warning. Blocks.

        `data` is any value with a JSON form; a string counts as text. `tool` and `query`, the request, appear in the
        header line.

        Raises:
            Rejected: The policy refused the result, or failed and `failure` is `closed`.
        """
        if not self.settings.enabled:
            return data
        is_text = isinstance(data, str)
        try:
            json_of_data = to_json(data)
        except ResultError as error:
            return not_json(error, tool, self.settings, data)
        form = b'{"content":[{"type":"text","text":%b}]}' if is_text else b'{"content":[],"structuredContent":%b}'
        changed = given(sections, inline_keys)
        reply = self._filter.apply(Message(form % json_of_data), tool, query=query, session=session_id, settings=changed)
        if reply["outcome"] == "pass":
            return data
        result = json.loads(reply["tool-result"])
        text = "\n".join(block["text"] for block in result["content"])
        if reply["outcome"] in ("reject", "fail"):
            raise Rejected(text)
        if not is_text:
            return result["structuredContent"]
        return json.loads(text) if reply["outcome"] == "offload" and text != data else text

    def swap(self, component: str | Path | bytes, *, sha256: str | None = None, allow_older: bool = False) -> str:
        """Uses another policy for the values from now on, and returns its SHA-256. Blocks while it is compiled.

        A value that the policy before has begun stays with it to its end. `allow_older` takes one whose signature states an
        earlier version.

        Raises:
            ComponentError: It cannot be used: nothing changes.
        """
        return self._filter.swap(component, sha256=sha256, allow_older=allow_older)

    def estimate_size(self, data: Any) -> int:
        """The size that is compared with the threshold, in its unit."""
        return self._filter.policy.size(measured(data), self.settings.unit)

    def sweep(self) -> int:
        """Removes expired offloads; returns their number. Offloading also does this, at most once a minute."""
        return self._filter.store.sweep()


def lro_offload(
    sections: Sections | Callable | None = None,
    inline_keys: Sequence[str] | None = None,
    session_id_key: str | None = None,
    *,
    offloader: LROOffloader | None = None,
    **settings: Any,
) -> Callable:
    """Decorator for a tool, `def` or `async def`, whose return value is offloaded when it is too large.

    `session_id_key` names an argument of the tool, else a key of the result, whose value appears in file names.
    `offloader` is a shared one; otherwise the tool gets a separate one with `settings`. An asynchronous tool
    offloads in a thread.
    """
    if callable(sections):
        return lro_offload()(sections)

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)
        by_argument = session_id_key in signature.parameters
        own = settings if by_argument or session_id_key is None else {"session_key": session_id_key, **settings}
        used = offloader or LROOffloader(**own)

        def filtered(data: Any, args: tuple, kwargs: dict) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            session = arguments.get(session_id_key) if by_argument else None
            query = _query(arguments)
            session = None if session is None else str(session)
            return used.offload_if_needed(data, sections, inline_keys, session, tool=function.__name__, query=query)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args, **kwargs):
                data = await function(*args, **kwargs)
                return await asyncio.to_thread(filtered, data, args, kwargs)

        else:

            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return filtered(function(*args, **kwargs), args, kwargs)

        # The wrapper may also return a descriptor, which the annotation does not allow.
        returned = signature.return_annotation
        if not (returned is dict or get_origin(returned) in (dict, Mapping)):
            signature = signature.replace(return_annotation=signature.empty)
            wrapper.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != "return"}
        wrapper.__signature__ = signature
        return wrapper

    return decorate


def _query(arguments: Mapping) -> str | None:
    """The arguments with a JSON form, for the header line."""
    shown = {}
    for name, value in arguments.items():
        try:
            to_json(value)
        except ResultError:
            continue
        shown[name] = value
    return to_json(shown).decode()


class LROContext:
    """Offloads the value that is set in a `with` block; `result` is available after it.

        with LROContext(sections=["results"]) as ctx:
            ctx.set_data(search())
        return ctx.result

    An exception in the block propagates, and nothing is offloaded.
    """

    def __init__(
        self,
        sections: Sections | None = None,
        threshold: int | None = None,
        inline_keys: Sequence[str] | None = None,
        session_id: str | None = None,
        *,
        offloader: LROOffloader | None = None,
        **settings: Any,
    ):
        self._offloader = offloader or LROOffloader(threshold, **settings)
        self._arguments = (sections, inline_keys, session_id)
        self._data: Any = None
        self._result: Any = None
        self._is_done = False

    def __enter__(self) -> "LROContext":
        return self

    def set_data(self, data: Any) -> None:
        """Sets the value to offload at the end of the block when it is too large."""
        self._data = data

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self._result = self._offloader.offload_if_needed(self._data, *self._arguments)
            self._is_done = True

    @property
    def result(self) -> Any:
        """The return value of `LROOffloader.offload_if_needed`."""
        if not self._is_done:
            raise RuntimeError("`result` is only available after the `with` block")
        return self._result
