"""WIT values as plain Python data, and their conversion to and from wasmtime.

| WIT | Python |
|---|---|
| record | `dict` with the WIT's field names (`media-type`); an option that is none is a missing key |
| list | `list` |
| variant, result | `"case"` without a payload, `{"case": payload}` with one |
| enum, flags | `str`, list of `str` |
| handle of a resource | `wasmtime.component.ResourceAny` |

wasmtime's own conversion shares a set between all threads; with it, two calls could not run concurrently. This module uses
its C interface, so it needs the version that `pyproject.toml` names.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from wasmtime import _ffi as ffi
from wasmtime import component as wit

__all__ = ["Codec", "codec"]

Value: Any = ffi.wasmtime_component_val_t


class Codec(NamedTuple):
    """Converts values of one WIT type."""

    lower: Callable[[Any, Any], None]
    """Writes a Python value to a wasmtime value, which then owns its content."""
    lift: Callable[[Any], Any]
    """Copies a wasmtime value to Python."""


def codec(type: Any) -> Codec:
    """The codec of a wasmtime type."""
    for kind, make in _CODECS.items():
        if isinstance(type, kind):
            return make(type)
    raise TypeError(f"no call has values of the type {type}")


def _number(kind: Any, field: str) -> Callable[[Any], Codec]:
    def lower(number, value):
        value.kind = kind.value
        setattr(value.of, field, number)

    made = Codec(lower, lambda value: getattr(value.of, field))
    return lambda _: made


def _set_text(data: bytes, vector: Any) -> None:
    ffi.wasm_byte_vec_new_uninitialized(ctypes.byref(vector), len(data))
    ctypes.memmove(vector.data, data, len(data))


def _text(vector: Any) -> str:
    return ctypes.string_at(vector.data, vector.size).decode() if vector.size else ""


def _string(kind: Any, field: str) -> Callable[[Any], Codec]:
    def lower(text, value):
        value.kind = kind.value
        _set_text(text if isinstance(text, bytes) else text.encode(), getattr(value.of, field))

    made = Codec(lower, lambda value: _text(getattr(value.of, field)))
    return lambda _: made


def _list(type: wit.ListType) -> Codec:
    element = codec(type.element)

    def lower(items, value):
        value.kind = ffi.WASMTIME_COMPONENT_LIST.value
        ffi.wasmtime_component_vallist_new_uninit(ctypes.byref(value.of.list), len(items))
        for index, item in enumerate(items):
            element.lower(item, value.of.list.data[index])

    return Codec(lower, lambda value: [element.lift(value.of.list.data[index]) for index in range(value.of.list.size)])


def _record(type: wit.RecordType) -> Codec:
    fields = [(name, isinstance(of, wit.OptionType), codec(of)) for name, of in type.fields]

    def lower(record, value):
        value.kind = ffi.WASMTIME_COMPONENT_RECORD.value
        ffi.wasmtime_component_valrecord_new_uninit(ctypes.byref(value.of.record), len(fields))
        for index, (name, optional, field) in enumerate(fields):
            entry = value.of.record.data[index]
            _set_text(name.encode(), entry.name)
            field.lower(record.get(name) if optional else record[name], entry.val)

    def lift(value):
        record = {}
        for index, (name, optional, field) in enumerate(fields):
            item = field.lift(value.of.record.data[index].val)
            if not optional or item is not None:
                record[name] = item
        return record

    return Codec(lower, lift)


def _boxed(of: Codec, payload: Any) -> Any:
    value = Value()
    of.lower(payload, value)
    return ffi.wasmtime_component_val_new(ctypes.byref(value))


def _option(type: wit.OptionType) -> Codec:
    payload = codec(type.payload)

    def lower(item, value):
        value.kind = ffi.WASMTIME_COMPONENT_OPTION.value
        value.of.option = None if item is None else _boxed(payload, item)

    return Codec(lower, lambda value: payload.lift(value.of.option.contents) if value.of.option else None)


def _split(case: Any) -> tuple[str, Any]:
    if isinstance(case, str):
        return case, None
    ((name, payload),) = case.items()
    return name, payload


def _cases(cases: Any) -> tuple[Callable, Callable]:
    codecs = {name: None if of is None else codec(of) for name, of in cases}

    def lower(case):
        name, payload = _split(case)
        of = codecs[name]
        return name, None if of is None else _boxed(of, payload)

    def lift(name, pointer):
        of = codecs[name]
        return name if of is None else {name: of.lift(pointer.contents)}

    return lower, lift


def _variant(type: wit.VariantType) -> Codec:
    lower_case, lift_case = _cases(type.cases)

    def lower(case, value):
        name, payload = lower_case(case)
        value.kind = ffi.WASMTIME_COMPONENT_VARIANT.value
        _set_text(name.encode(), value.of.variant.discriminant)
        value.of.variant.val = payload

    return Codec(lower, lambda value: lift_case(_text(value.of.variant.discriminant), value.of.variant.val))


def _result(type: wit.ResultType) -> Codec:
    lower_case, lift_case = _cases([("ok", type.ok), ("err", type.err)])

    def lower(case, value):
        name, payload = lower_case(case)
        value.kind = ffi.WASMTIME_COMPONENT_RESULT.value
        value.of.result.is_ok = name == "ok"
        value.of.result.val = payload

    return Codec(lower, lambda value: lift_case("ok" if value.of.result.is_ok else "err", value.of.result.val))


def _flags(type: wit.FlagsType) -> Codec:
    def lower(names, value):
        value.kind = ffi.WASMTIME_COMPONENT_FLAGS.value
        ffi.wasmtime_component_valflags_new_uninit(ctypes.byref(value.of.flags), len(names))
        for index, name in enumerate(names):
            _set_text(name.encode(), value.of.flags.data[index])

    return Codec(lower, lambda value: [_text(value.of.flags.data[index]) for index in range(value.of.flags.size)])


def _resource(_: wit.OwnType | wit.BorrowType) -> Codec:
    def lower(handle, value):
        value.kind = ffi.WASMTIME_COMPONENT_RESOURCE.value
        value.of.resource = ffi.wasmtime_component_resource_any_clone(handle.ptr())

    def lift(value):
        return wit.ResourceAny._from_ptr(ffi.wasmtime_component_resource_any_clone(value.of.resource))

    return Codec(lower, lift)


_CODECS: dict[type, Callable[[Any], Codec]] = {
    wit.Bool: _number(ffi.WASMTIME_COMPONENT_BOOL, "boolean"),
    wit.U8: _number(ffi.WASMTIME_COMPONENT_U8, "u8"),
    wit.U32: _number(ffi.WASMTIME_COMPONENT_U32, "u32"),
    wit.S32: _number(ffi.WASMTIME_COMPONENT_S32, "s32"),
    wit.U64: _number(ffi.WASMTIME_COMPONENT_U64, "u64"),
    wit.String: _string(ffi.WASMTIME_COMPONENT_STRING, "string"),
    wit.EnumType: _string(ffi.WASMTIME_COMPONENT_ENUM, "enumeration"),
    wit.ListType: _list,
    wit.RecordType: _record,
    wit.OptionType: _option,
    wit.VariantType: _variant,
    wit.ResultType: _result,
    wit.FlagsType: _flags,
    wit.OwnType: _resource,
    wit.BorrowType: _resource,
}
