"""Runs policies: each composed with what a host does around it, each call in a fresh instance with limits.

The package has composed components, with a policy in them. Another policy takes its place as bytes: the sections of a
composed component are results, adapter and policy, in this order, and what they import is matched by name. A policy
gets only what the composed component offers to it, which wasmtime checks while it compiles.
"""

import ctypes
import hashlib
import math
import re
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wasmtime import Config, Engine, Store, WasiConfig, WasmtimeError
from wasmtime import _ffi as ffi
from wasmtime import component as wit

from .defaults import LIMITS
from .errors import ComponentError, PolicyError, ResultError, SettingsError, StoreError
from .values import Value, codec

__all__ = ["DEFAULT_COMPONENT", "Component", "Limits", "Policy", "load", "own_component", "read"]

DEFAULT_COMPONENT = Path(__file__).with_name("lro_policy.wasm")
"""The default policy, put here by `make packages`."""

COMPOSED = (Path(__file__).with_name("lro_composed.wasm"), Path(__file__).with_name("lro_composed_0_1.wasm"))
"""Components composed for policies of the newest version of the contract, and of 0.1; put here by `make packages`."""

EXPORT = "lro:adapter/filter@0.1.0"
MESSAGES = "lro:adapter/messages@0.1.0"
POLICY_EXPORT = "lro:filter/lro-filter"

_COMPONENT_SECTION = 4
_HEADER = b"\0asm\x0d\0\x01\0"
_TICK_SECONDS = 0.01
_TABLES_MAX = 16
_OWN_INSTANCES = 32
"""Core instances of the components around a policy."""
_OWN_MEMORIES = 3
"""Linear memories of the components around a policy."""
_PIECE_BYTES = 1 << 20
"""Most bytes of a message that are handed over at a time."""
_BLOCK_BYTES = 256 << 10
"""Bytes of a file that are read at a time: they stay in a processor's own cache."""
_MEMORY_OF_CHARACTER = 4
"""Bytes of memory that a character of a long text, or a byte of a message, may take."""


@dataclass(frozen=True)
class Limits:
    """Limits of one call."""

    wall_time_ms: int = LIMITS["wall_time_ms"]
    """Longest duration of the call."""
    memory_bytes: int = LIMITS["memory_bytes"]
    """Most linear memory, in bytes, besides room for the result."""
    table_elements: int = LIMITS["table_elements"]
    """Most elements of a table."""
    instances: int = LIMITS["instances"]
    """Most core instances of the policy."""
    written_bytes: int = LIMITS["written_bytes"]
    """Most bytes written to files."""
    files: int = LIMITS["files"]
    """Most files."""


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
    # What is compiled is kept in wasmtime's own cache. Where a home is missing or read-only, each process compiles.
    with suppress(WasmtimeError):
        config.cache = True
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
        ComponentError: The policy is missing, has another digest, is not a component, imports what no policy can have,
            or has another version.
    """
    is_default = source is None
    if not isinstance(source, bytes):
        source = read(DEFAULT_COMPONENT if source is None else Path(source))
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


def own_component(name: str) -> wit.Component:
    """A component of the package, compiled.

    Raises:
        ComponentError: It is missing.
    """
    return wit.Component(_ENGINE, read(Path(__file__).with_name(name)))


def read(path: Path) -> bytes:
    """The bytes of a component.

    Raises:
        ComponentError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        is_own = path == DEFAULT_COMPONENT or path.parent == Path(__file__).parent
        hint = "; `make packages` puts it there" if is_own else ""
        raise ComponentError(f"cannot read {path}: {error.strerror}{hint}") from error


@dataclass(frozen=True)
class Message:
    """What a component gets as a message: a text, which may be long."""

    data: bytes
    """UTF-8, which the caller vouches for: at anything else, wasmtime ends the process."""


class Component:
    """The functions of an interface that a component exports.

    A `Message` among the arguments of a call is handed over piece by piece.
    """

    def __init__(self, component: wit.Component, interface: str):
        self._component = component
        self._linker = wit.Linker(_ENGINE)
        self._linker.add_wasip2()
        self._functions = self._functions_of(interface)
        self._messages = self._functions_of(MESSAGES) if MESSAGES in component.type.exports(_ENGINE) else {}

    def _functions_of(self, interface: str) -> dict:
        """The functions of an interface, each with the codecs of its parameters and of its answer."""
        exported = self._component.get_export_index(interface)
        functions = self._component.type.exports(_ENGINE)[interface].ty.exports(_ENGINE).items()
        return {
            name: (
                self._component.get_export_index(name, exported),
                [codec(type) for _, type in item.ty.params],
                codec(item.ty.result) if item.ty.result is not None else None,
            )
            for name, item in functions
            if isinstance(item.ty, wit.FuncType)
        }

    @contextmanager
    def instance(self, limits: Limits, wasi: WasiConfig, room: int = 0):
        """An instance within limits, with room for so many bytes of memory more.

        Raises:
            PolicyError: A call did not end well.
        """
        with _CLOCK.running(), Store(_ENGINE) as store:
            store.set_limits(
                limits.memory_bytes + room,
                limits.table_elements,
                limits.instances + _OWN_INSTANCES,
                _TABLES_MAX + _OWN_INSTANCES,
                1 + _OWN_MEMORIES,
            )
            store.set_wasi(wasi)
            store.set_epoch_deadline(math.ceil(limits.wall_time_ms / 1000 / _TICK_SECONDS) + 1)
            try:
                yield Instance(store, self._linker.instantiate(store, self._component), self._functions, self._messages)
            except WasmtimeError as error:
                raise _failure(error, limits) from error

    def call(self, name: str, limits: Limits, wasi: WasiConfig, *arguments: Any) -> Any:
        """The answer of a function, as plain data (see `values`), in an instance of its own.

        Raises:
            PolicyError: The call did not end well.
        """
        # A long text is in the memory of one component.
        texts = [argument.data if isinstance(argument, Message) else argument for argument in arguments]
        room = _MEMORY_OF_CHARACTER * sum(len(text) for text in texts if isinstance(text, str | bytes))
        with self.instance(limits, wasi, room) as instance:
            return instance.call(name, *arguments)


class Instance:
    """An instance of a component."""

    def __init__(self, store: Store, instance: wit.Instance, functions: dict, messages: dict):
        self._store, self._instance, self._functions, self._messages = store, instance, functions, messages

    def call(self, name: str, *arguments: Any) -> Any:
        """The answer of a function, as plain data (see `values`)."""
        given = [self._number(argument.data) if isinstance(argument, Message) else argument for argument in arguments]
        return _call(self._store, self._instance, self._functions[name], *given)

    def _number(self, data: bytes) -> int:
        """The number of a message with this text. It is there as long as the instance."""
        store, instance = self._store, self._instance
        message = _call(store, instance, self._messages["[constructor]message"], len(data))
        append = self._messages["[method]message.append-text"]
        for piece in _pieces(data):
            _call(store, instance, append, message, piece)
        return _call(store, instance, self._messages["[method]message.number"], message)


def _pieces(data: bytes):
    """UTF-8 in pieces, cut between characters."""
    start = 0
    while start < len(data):
        end = min(start + _PIECE_BYTES, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end]
        start = end


class Policy:
    """A compiled policy, from `load`. Its calls may run in several threads concurrently."""

    def __init__(self, data: bytes, digest: str):
        self.digest = digest
        """SHA-256 of the policy, in hexadecimal digits."""
        self._component = Component(_compiled(data), EXPORT)

    def filter(self, request: dict, result: str | Message, directory: Path | None, limits: Limits) -> dict:
        """The `reply` of `wit/adapter/filter.wit` to a result, as plain data (see `values`). Files go to `directory`.

        Raises:
            PolicyError: The call did not end well: `failed` has the reply.
            SettingsError, ResultError: The request is invalid.
            StoreError: A file in the directory cannot be read.
        """
        message = _message(result)
        with self._component.instance(limits, _wasi(directory), _MEMORY_OF_CHARACTER * len(message.data)) as instance:
            reply = _checked(instance.call("filter-undigested", request, message))
            if reply["outcome"] != "offload":
                return reply
            # Python has the instructions of the processor for it, which a component has not.
            digests = [_sha256(directory / file["name"], file["digest-from"]) for file in reply["files"]]
            return _checked(instance.call("digested", digests))

    def failed(self, request: dict, result: str | Message, reason: str, wrote: bool) -> dict:
        """The reply to a result that could not be filtered."""
        return self._call("failed", Limits(), None, request, _message(result), reason, wrote)

    def check(self, settings: str) -> None:
        """Checks settings, a JSON object.

        Raises:
            SettingsError: A setting is invalid.
        """
        self._call("check", Limits(), None, settings)

    def tools_list(self, settings: str, result: str) -> str:
        """The result of `tools/list` with changed output schemas."""
        return self._call("tools-list", Limits(), None, settings, result, [])

    def size(self, text: str, unit: str) -> int:
        """The size of a text, as it is compared with a threshold."""
        return self._call("size", Limits(), None, text, unit)

    def _call(self, name: str, limits: Limits, directory: Path | None, *arguments: Any) -> Any:
        return _checked(self._component.call(name, limits, _wasi(directory), *arguments))


def _wasi(directory: Path | None) -> WasiConfig:
    """What a component has of WASI: a directory, if any."""
    wasi = WasiConfig()
    if directory is not None:
        wasi.preopen_dir(str(directory), "/")
    return wasi


def _message(result: str | Message) -> Message:
    return Message(result.encode()) if isinstance(result, str) else result


def _checked(found: Any) -> Any:
    """The answer of a function; raises its error."""
    if not isinstance(found, dict) or "err" not in found:
        return found["ok"] if isinstance(found, dict) else found
    ((kind, message),) = found["err"].items()
    raise SettingsError(message) if kind == "settings" else ResultError(message)


def _sha256(path: Path, start: int) -> bytes:
    """The digest of a file from an offset to its end."""
    digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK_BYTES))
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            while length := file.readinto(block):
                digest.update(block[:length])
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    return digest.digest()


def _compiled(policy: bytes) -> wit.Component:
    """The policy in a composed component of its version."""
    if not policy.startswith(_HEADER):
        raise ComponentError("not a WebAssembly component")
    for composed in COMPOSED:
        try:
            return wit.Component(_ENGINE, _with_policy(read(composed), policy))
        except WasmtimeError as error:
            reason = str(error)
            if POLICY_EXPORT not in reason:
                break
    else:
        raise ComponentError(f"it exports `{POLICY_EXPORT}` in no version that this host runs: it is not a policy")
    if found := re.search(r"missing import named `(.*?)`", reason):
        raise ComponentError(f"the component imports `{found[1]}`, which no policy can have")
    raise ComponentError(f"not a WebAssembly component: {reason}")


def _with_policy(composed: bytes, policy: bytes) -> bytes:
    """A composed component with this policy: the last component in it."""
    at, last = len(_HEADER), (0, 0)
    while at < len(composed):
        size, start = _number(composed, at + 1)
        if composed[at] == _COMPONENT_SECTION:
            last = (at, start + size)
        at = start + size
    size, left = bytearray(), len(policy)
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    size.append(left)
    return b"".join([composed[: last[0]], bytes([_COMPONENT_SECTION]), size, policy, composed[last[1] :]])


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _call(store: Store, instance: wit.Instance, function: tuple, *arguments: Any) -> Any:
    index, params, answer = function
    exported = instance.get_func(store, index)
    given = (Value * len(params))()
    for of, argument, value in zip(params, arguments, given, strict=True):
        of.lower(argument, value)
    result = Value()
    try:
        error = ffi.wasmtime_component_func_call(
            ctypes.byref(exported._func), store._context(), given, len(params), ctypes.byref(result), int(answer is not None)
        )
    finally:
        for value in given:
            ffi.wasmtime_component_val_delete(ctypes.byref(value))
    if error:
        raise WasmtimeError._from_ptr(error)
    if answer is None:
        return None
    try:
        return answer.lift(result)
    finally:
        ffi.wasmtime_component_val_delete(ctypes.byref(result))


def _failure(error: WasmtimeError, limits: Limits) -> PolicyError:
    text = str(error)
    if "interrupt" in text:
        return PolicyError("deadline", f"the policy took longer than {limits.wall_time_ms} ms (limit wall-time-ms)")
    if "call stack exhausted" in text:
        return PolicyError("stack", "the policy ran out of stack")
    lines = text.strip().splitlines()
    return PolicyError("trap", f"the policy failed: {lines[-1].strip() if lines else 'no reason given'}")
