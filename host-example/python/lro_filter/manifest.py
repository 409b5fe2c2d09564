"""`manifest.json` of an offload, and its entries that are computed from the bytes of a file.

The format is that of the lro-filter host, so that `lro read` and `lro extract` work on files of this package.
"""

import hashlib
import json
import os
from typing import Any, BinaryIO

from .errors import StoreError
from .sizes import from_json

__all__ = ["MANIFEST", "TIME_TO_LIVE", "index_name", "manifest", "record"]

MANIFEST = "manifest.json"
TIME_TO_LIVE = ".ttl-seconds"
"""File of an offload with its own time to live, which the host writes for some tools: seconds in decimal digits."""
INDEX_STEP_BYTES = 64 * 1024
BLOCK_BYTES = 1 << 20
STEPS_MAX = 256
"""Most steps of a condition."""


def index_name(file: dict) -> str:
    """Name of the index of a file; a policy cannot use it, because it begins with a dot."""
    return f".{file['name']}.index"


def record(file: dict, opened: BinaryIO) -> tuple[dict, bytes]:
    """The manifest entry of a `file` that a policy wrote, and its index, which is empty for a small file.

    Raises:
        StoreError: The file does not match what the policy reports.
    """
    entry = {
        "name": file["name"],
        "kind": file["kind"],
        "section": file["section"],
        "parts": file["parts"],
        "origin": file["origin"].replace("-", "_"),
        "form": _form(file.get("form")),
        "derived_from": file.get("derived-from"),
        "pointer": file.get("pointer"),
        "shape": file.get("shape"),
        "media_type": file["media-type"],
        "records": file["records"],
        "bytes": file["bytes"],
        "schema": _raw(file["schema"], "a schema") if "schema" in file else None,
        "queries": [_stored(query) for query in file["queries"]],
    }
    has_lines = file["kind"] in ("records", "text")
    header = len(opened.readline()) if file["kind"] == "records" else 0
    digest, lines, index = _digest(opened, header, has_lines)
    if file["kind"] == "records":
        if not header:
            raise StoreError(f"{file['name']}: the header line is missing")
        if lines != file["records"]:
            raise StoreError(f"{file['name']}: the number of records differs from the listed one")
    elif has_lines:
        entry["records"] = lines
    entry["sha256"], entry["digest_from"], entry["index"] = digest, header, None
    if not has_lines or file["bytes"] <= INDEX_STEP_BYTES:
        return entry, b""
    entry["index"] = {"bytes": len(index), "sha256": hashlib.sha256(index).hexdigest()}
    return entry, index


def _digest(opened: BinaryIO, start: int, has_lines: bool) -> tuple[str, int, bytes]:
    """SHA-256, number of lines and index of a file from `start` on.

    An index entry is the number and the offset of the first line that begins at or after its point.
    """
    digest, index, lines, offset, last = hashlib.sha256(), bytearray(), 0, start, b"\n"
    size = os.fstat(opened.fileno()).st_size
    point = 0

    def entry(number: int, at: int) -> None:
        index.extend(number.to_bytes(8, "little") + at.to_bytes(8, "little"))

    while point <= start and has_lines:
        entry(0, start)
        point += INDEX_STEP_BYTES
    opened.seek(start)
    while block := opened.read(BLOCK_BYTES):
        digest.update(block)
        if has_lines:
            counted = 0
            # A line begins after a line feed.
            while (feed := block.find(b"\n", max(point - 1 - offset, 0))) >= 0:
                lines += block.count(b"\n", counted, feed + 1)
                counted = feed + 1
                while point <= offset + feed + 1 < size:
                    entry(lines, offset + feed + 1)
                    point += INDEX_STEP_BYTES
                if offset + feed + 1 >= size:
                    break
            lines += block.count(b"\n", counted)
        offset += len(block)
        last = block[-1:]
    lines += last != b"\n"
    while point < size and has_lines:
        entry(lines, size)
        point += INDEX_STEP_BYTES
    return digest.hexdigest(), lines, bytes(index)


class _Raw(str):
    """JSON text that is written to the manifest unchanged."""


def _raw(text: str, what: str) -> _Raw:
    try:
        from_json(text)
    except ValueError as error:
        raise StoreError(f"the policy stored {what} that is not JSON: {error}") from error
    return _Raw(text)


def manifest(id: str, tenant: str, call: dict, descriptor: str, entries: list[dict]) -> bytes:
    """The content of the manifest; the descriptor is preserved byte for byte."""
    record = {
        "tool": call["tool"],
        "session": call.get("session"),
        "created": call["time"],
        "descriptor": _Raw(descriptor),
        "files": entries,
    }
    return _written({"version": 2, "id": id, "tenant": tenant, "record": record}).encode() + b"\n"


def _written(value: Any) -> str:
    match value:
        case _Raw():
            return value
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{_written(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _form(form: Any) -> Any:
    """The `form` of a file in the manifest, whose names have `_` for `-`."""
    return form.replace("-", "_") if isinstance(form, str) else form


def _stored(stored: dict) -> dict:
    """A stored query in the syntax that models use."""
    return {"name": stored["name"], "description": stored["description"], "query": _query(stored["query"])}


def _query(query: dict) -> dict:
    found: dict[str, Any] = {}
    steps = query["where"]
    if len(steps) > STEPS_MAX:
        raise StoreError("the policy stored an invalid query")
    if steps:
        last = _condition(steps, len(steps) - 1)
        found["where"] = last.get("all", [last])
    if "group" in query:
        aggregates = [_named(each, "kind") for each in query["group"]["aggregates"]]
        found["group"] = {"by": [_selection(each) for each in query["group"]["by"]]}
        found["group"] |= {"aggregates": aggregates} if aggregates else {}
    found["select"] = [_selection(each) for each in query["select"]]
    found["sort"] = query["sort"]
    for name in ("distinct", "sample", "count", "offset", "limit"):
        found[name] = query.get(name)
    return {name: value for name, value in found.items() if value}


def _condition(steps: list, at: int) -> dict:
    ((kind, payload),) = steps[at].items()
    if kind in ("all", "any"):
        return {kind: [_condition(steps, step) for step in _earlier(payload, at)]}
    if kind == "negation":
        (step,) = _earlier([payload], at)
        return {"not": _condition(steps, step)}
    test = {"field": payload["field"], "op": "in" if payload["operator"] == "one-of" else payload["operator"]}
    test["op"] = test["op"].replace("-", "_")
    if "value" in payload:
        test["value"] = _raw(payload["value"], "a value of a query")
    if payload["ignore-case"]:
        test["ignore_case"] = True
    if "parameter" in payload:
        test["parameter"] = payload["parameter"]
    return test


def _earlier(steps: list[int], at: int) -> list[int]:
    """Checks that step `at` refers only to earlier steps, so that a condition terminates."""
    if any(step >= at for step in steps):
        raise StoreError("the policy stored an invalid query")
    return steps


def _selection(selection: dict) -> Any:
    return _named(selection, "field") if "name" in selection else selection["field"]


def _named(item: dict, *keys: str) -> dict:
    found = {key: item[key] for key in (*keys, "field") if key in item}
    return found | ({"as": item["name"]} if "name" in item else {})
