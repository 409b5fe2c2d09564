"""Runs policies: components of the world `lro-policy`, each call in a fresh instance with limits.

A component may import only the interfaces of its world, which is checked before any of its code runs.
wasmtime's Python package can only add all of WASI 0.2 to a linker, so this check, and not the linker, is what keeps
clocks, random numbers, environment, streams and network from a policy.
"""

import ctypes
import hashlib
import itertools
import math
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasmtime import Config, Engine, Store, WasiConfig, WasmtimeError
from wasmtime import _ffi as ffi
from wasmtime import component as wit

from .defaults import LIMITS
from .errors import ComponentError, PolicyError
from .values import Value, codec

__all__ = ["Limits", "Part", "Policy", "load", "printable"]

DEFAULT_COMPONENT = Path(__file__).with_name("lro_policy.wasm")
"""The default policy, put here by `make packages`."""

SLICE_BYTES_MAX = 1 << 20
"""Most bytes of a part that a policy reads at once."""

EXPORT = "lro:filter/lro-filter"
TYPES = "lro:filter/types"
CLOCK = "wasi:clocks/wall-clock"
ALLOWED_IMPORTS = {TYPES, CLOCK, "wasi:filesystem/preopens", "wasi:filesystem/types"}
VERSIONS = ("0.1", "0.2")
"""Major and minor versions of the package `lro:filter` that this host runs, the newest last."""

_TOOL_RESULT = 1
_TICK_SECONDS = 0.01
_TABLES_MAX = 16


@dataclass(frozen=True)
class Limits:
    """Limits of one call of a policy. The limits on its files are checked after the call."""

    wall_time_ms: int = LIMITS["wall_time_ms"]
    """Longest duration of the call."""
    memory_bytes: int = LIMITS["memory_bytes"]
    """Most linear memory, in bytes."""
    table_elements: int = LIMITS["table_elements"]
    """Most elements of a table."""
    instances: int = LIMITS["instances"]
    """Most core instances."""
    written_bytes: int = LIMITS["written_bytes"]
    """Most bytes written to files."""
    files: int = LIMITS["files"]
    """Most files."""


@dataclass(frozen=True)
class Part:
    """One part of a tool result, the record `part` of `wit/types.wit` with its data."""

    kind: str
    """`text`, `structured`, `binary`, `block` or `meta`."""
    data: bytes
    """Text in UTF-8, or the bytes of a binary part."""
    media_type: str | None = None
    """Media type, when the result gives it."""
    name: str | None = None
    """URI or name of an embedded resource."""


class _Clock:
    """Advances the engine's epoch while calls run, so that each call has a deadline."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._calls = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def running(self):
        with self._changed:
            self._calls += 1
            # A forked process has only the forking thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._tick, name="lro-clock", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1

    def _tick(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
            time.sleep(_TICK_SECONDS)
            self._engine.increment_epoch()


def _engine() -> Engine:
    config = Config()
    config.epoch_interruption = True
    return Engine(config)


_ENGINE = _engine()
_CLOCK = _Clock(_ENGINE)
_LOADED: weakref.WeakValueDictionary[str, "Policy"] = weakref.WeakValueDictionary()
_DEFAULT: list["Policy"] = []
_LOADING = threading.Lock()


def load(source: str | Path | bytes | None = None, *, sha256: str | None = None) -> "Policy":
    """Loads a policy from a file or from bytes, or the default policy; compiles it once while it is in use.

    `sha256` is the digest that it must have, in hexadecimal digits; it is compared before anything is compiled.

    Raises:
        ComponentError: The policy is missing, has another digest, is not a component, imports more than its world, or has
            another version.
    """
    is_default = source is None
    if not isinstance(source, bytes):
        path = DEFAULT_COMPONENT if source is None else Path(source)
        try:
            source = path.read_bytes()
        except OSError as error:
            hint = "" if path != DEFAULT_COMPONENT else "; `make packages` puts it there, or give component=PATH"
            raise ComponentError(f"cannot read the policy {path}: {error.strerror}{hint}") from error
    digest = hashlib.sha256(source).hexdigest()
    if sha256 is not None and sha256.lower() != digest:
        raise ComponentError(f"the policy has the SHA-256 {digest}, not {sha256}")
    with _LOADING:
        policy = _LOADED.get(digest)
        if policy is None:
            policy = _LOADED[digest] = Policy(source, digest)
        if is_default:
            # Tools that come and go have it, too.
            _DEFAULT[:] = [policy]
        return policy


class Policy:
    """A compiled policy, from `load`. Its calls may run in several threads concurrently."""

    def __init__(self, data: bytes, digest: str):
        self.digest = digest
        """SHA-256 of the component, in hexadecimal digits."""
        try:
            self._component = wit.Component(_ENGINE, data)
        except WasmtimeError as error:
            raise ComponentError(f"not a WebAssembly component: {error}") from error
        self._payloads: dict[int, Sequence[Part]] = {}
        self._numbers = itertools.count(1)
        # Callbacks must live as long as the linker that calls them.
        self._callbacks: list[Any] = []
        types_name, types = self._check_imports()
        self._functions = self._exported()
        self._linker = wit.Linker(_ENGINE)
        self._linker.add_wasip2()
        if types is not None:
            self._define(types_name, types)

    def inspect(self, call: dict, parts: Sequence[Part], limits: Limits = Limits()) -> Any:
        """The verdict on a result: a `verdict` of `wit/types.wit` as plain data (see `values`).

        Raises:
            PolicyError: The call failed.
        """
        return self._run("inspect-result", limits, parts, None, self._of_version(call))

    def write(
        self, call: dict, parts: Sequence[Part], plan: dict, directory: str | Path, limits: Limits = Limits()
    ) -> dict:
        """Writes the planned parts into an empty directory. Returns the `descriptor`.

        Raises:
            PolicyError: The call failed; the content of the directory is undefined.
        """
        descriptor = self._run("write-sections", limits, parts, Path(directory), self._of_version(call), plan)
        if self._version == "0.1":
            descriptor["files"] = [_newest(file) for file in descriptor["files"]]
        return descriptor

    def _of_version(self, call: dict) -> dict:
        """The record `call` of the policy's version. What that version does not have is left out as it is lowered."""
        return call | {"abilities": call["reader"]["abilities"]} if self._version == "0.1" else call

    def _run(self, name, limits, parts, directory, call, *more):
        index, params, answer = self._functions[name]
        number = next(self._numbers) & 0xFFFF_FFFF
        wasi = WasiConfig()
        if directory is not None:
            wasi.preopen_dir(str(directory), "/")
        with _CLOCK.running(), Store(_ENGINE) as store:
            store.set_limits(limits.memory_bytes, limits.table_elements, limits.instances, _TABLES_MAX, 1)
            store.set_wasi(wasi)
            store.set_epoch_deadline(math.ceil(limits.wall_time_ms / 1000 / _TICK_SECONDS) + 1)
            self._payloads[number] = parts
            try:
                function = self._linker.instantiate(store, self._component).get_func(store, index)
                handle = wit.ResourceHost.borrow(number, _TOOL_RESULT).to_any(store)
                found = _call(store, function, params, [call, handle, *more], answer)
            except WasmtimeError as error:
                raise _failure(error, limits) from error
            finally:
                del self._payloads[number]
        if "err" in found:
            raise PolicyError("refused", f"the policy refused: {_described(found['err'])}", found["err"])
        return found["ok"]

    def _check_imports(self):
        """The import of `lro:filter/types`, if any."""
        found = (TYPES, None)
        for name, item in self._component.type.imports(_ENGINE).items():
            interface = name.partition("@")[0]
            is_clock = interface == CLOCK and any(
                isinstance(inner.ty, wit.FuncType) for inner in item.ty.exports(_ENGINE).values()
            )
            if interface not in ALLOWED_IMPORTS or is_clock:
                raise ComponentError(f"the component imports `{name}`, which is not in the world `lro-policy`")
            if interface == TYPES:
                found = (name, item.ty)
        return found

    def _exported(self):
        exports = self._component.type.exports(_ENGINE)
        name = next((name for name in exports if name.partition("@")[0] == EXPORT), None)
        if name is None:
            raise ComponentError(f"the component exports {sorted(exports)} but not `{EXPORT}`: it is not a policy")
        version = name.partition("@")[2]
        self._version = ".".join(version.split(".")[:2])
        if self._version not in VERSIONS:
            runs = " and ".join(VERSIONS)
            raise ComponentError(f"the policy was built for version {version} of lro:filter; this host runs {runs}")
        instance = self._component.get_export_index(name)
        functions = {}
        for function, item in exports[name].ty.exports(_ENGINE).items():
            if isinstance(item.ty, wit.FuncType):
                params = [codec(type) for _, type in item.ty.params]
                index = self._component.get_export_index(function, instance)
                functions[function] = (index, params, codec(item.ty.result))
        return functions

    def _define(self, name: str, types: wit.ComponentInstanceType) -> None:
        """Defines the resource `tool-result` and the methods that the component uses."""
        reading = {
            "[method]tool-result.parts": _parts,
            "[method]tool-result.read-text": _read_text,
            "[method]tool-result.read-bytes": _read_bytes,
        }
        with self._linker.root() as root, root.add_instance(name) as instance:
            instance.add_resource("tool-result", wit.ResourceType.host(_TOOL_RESULT), lambda *_: None)
            for function, item in types.exports(_ENGINE).items():
                if function in reading:
                    self._add(instance, function, item.ty, reading[function])

    def _add(self, instance: wit.LinkerInstance, name: str, function: wit.FuncType, read) -> None:
        arguments = [codec(of) for _, of in function.params[1:]]
        result = codec(function.result)

        @ffi.wasmtime_component_func_callback_t
        def callback(_data, context, _type, given, count, results, _results):
            try:
                parts = self._payloads[_taken(context, given[0].of.resource)]
                values = [argument.lift(given[index + 1]) for index, argument in enumerate(arguments[: count - 1])]
                result.lower(read(parts, *values), results[0])
                return 0
            except BaseException as error:
                # An exception cannot propagate through C.
                failure = WasmtimeError(f"in the host: {type(error).__name__}: {error}")
                return ctypes.cast(failure._consume(), ctypes.c_void_p).value

        self._callbacks.append(callback)
        finalizer = ctypes.cast(0, ctypes.CFUNCTYPE(None, ctypes.c_void_p))
        text = name.encode()
        error = ffi.wasmtime_component_linker_instance_add_func(
            instance.ptr(), ctypes.create_string_buffer(text), len(text), callback, None, finalizer
        )
        if error:
            raise WasmtimeError._from_ptr(error)


def _taken(context, handle) -> int:
    """The number of a borrowed handle, which is released here."""
    host = ctypes.POINTER(ffi.wasmtime_component_resource_host_t)()
    error = ffi.wasmtime_component_resource_any_to_host(context, handle, ctypes.byref(host))
    if not error:
        number = ffi.wasmtime_component_resource_host_rep(host)
        ffi.wasmtime_component_resource_host_delete(host)
        return number
    raise WasmtimeError._from_ptr(error)


def _call(store, function, params, arguments, answer):
    given = (Value * len(params))()
    for of, argument, value in zip(params, arguments, given, strict=True):
        of.lower(argument, value)
    result = Value()
    try:
        error = ffi.wasmtime_component_func_call(
            ctypes.byref(function._func), store._context(), given, len(params), ctypes.byref(result), 1
        )
    finally:
        for value in given:
            ffi.wasmtime_component_val_delete(ctypes.byref(value))
    if error:
        raise WasmtimeError._from_ptr(error)
    try:
        return answer.lift(result)
    finally:
        ffi.wasmtime_component_val_delete(ctypes.byref(result))


def _failure(error: WasmtimeError, limits: Limits) -> PolicyError:
    text = str(error)
    if "interrupt" in text:
        return PolicyError("deadline", f"the policy did not return within {limits.wall_time_ms} ms")
    if "call stack exhausted" in text:
        return PolicyError("stack", "the policy exhausted its stack")
    lines = text.strip().splitlines()
    return PolicyError("trap", f"the policy ended in a trap: {lines[-1].strip() if lines else 'no reason given'}")


def _described(refused: Any) -> str:
    """The text of a `policy-error`."""
    if isinstance(refused, str):
        return refused
    ((name, payload),) = refused.items()
    return f"{name}: {printable(str(payload))}"


def printable(text: str) -> str:
    """A policy's text for a log or a reply: at most 4,096 characters, without control characters."""
    return "".join(character if character.isprintable() else " " for character in text[:4096])


def _newest(file: dict) -> dict:
    """A record `file` of version 0.1 as one of the newest version."""
    return {name: value for name, value in file.items() if name != "part"} | {
        "parts": [file["part"]],
        "origin": "content",
    }


def _parts(parts: Sequence[Part]) -> list[dict]:
    return [
        {
            "kind": part.kind,
            "media-type": part.media_type,
            "name": part.name,
            "size": len(part.data),
            "complete": True,
        }
        for part in parts
    ]


def _read_bytes(parts: Sequence[Part], index: int, offset: int, length: int):
    part = parts[index] if index < len(parts) else None
    if part is None or part.kind != "binary":
        return {"err": "no-such-part" if part is None else "wrong-kind"}
    return {"ok": part.data[offset : offset + min(length, SLICE_BYTES_MAX)]}


def _read_text(parts: Sequence[Part], index: int, offset: int, length: int):
    part = parts[index] if index < len(parts) else None
    if part is None or part.kind == "binary":
        return {"err": "no-such-part" if part is None else "wrong-kind"}
    data = part.data
    if offset >= len(data):
        return {"ok": b""}
    if _is_inside(data, offset):
        return {"err": {"inside-character": next(at for at in range(offset, -1, -1) if not _is_inside(data, at))}}
    end = min(offset + min(length, SLICE_BYTES_MAX), len(data))
    while end > offset and _is_inside(data, end):
        end -= 1
    if end == offset:
        end = next(at for at in range(offset + 1, len(data) + 1) if not _is_inside(data, at))
    return {"ok": data[offset:end]}


def _is_inside(data: bytes, at: int) -> bool:
    """Whether this byte continues a character."""
    return at < len(data) and data[at] & 0xC0 == 0x80
