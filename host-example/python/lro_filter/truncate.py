"""Cuts a result to a limit: whole records of JSON, the beginning of other text, a note in place of the rest."""

import json
from collections.abc import Iterator
from typing import Any

from .component import Part
from .parts import ToolResult
from .sizes import measure, to_json

__all__ = ["cut_value", "truncated"]

WARNING = "larger than the limit: only the first records are here"
WARNING_CHARACTERS_MAX = 512
SMALL_BYTES = 1_024
"""Longest value, in bytes, that stays whole and is not a list."""
NAMES = {"structured": "structured content", "binary": "binary content", "block": "content block"}


def truncated(result: ToolResult, limit: dict, suffix: str, warning: str = "") -> tuple[list[dict], dict | None]:
    """Content and structured content of at most `limit` on the wire, JSON escapes and envelope included.

    JSON keeps its first whole records and counts the others; other text keeps its beginning, then `suffix`,
    and in an error its end; any other block is replaced by a note with its kind and size. Structured content is
    replaced by its first records, and metadata is dropped. A limit smaller than an empty result
    is exceeded by as little as possible.
    """
    warning = warning[:WARNING_CHARACTERS_MAX]
    budget = _Budget(limit)
    budget.spend('{"content":[],"structuredContent":{"offloaded":false},"isError":false}')
    structured = None
    blocks = []
    if result.structured is not None:
        # It is sent twice: as such and as text.
        data = result.parts[result.structured_part].data
        cut = None if result.is_error else cut_value(data, limit["unit"], warning, budget.left // 2)
        structured = cut or {"offloaded": False}
        if cut is not None and budget.take(_block(_text(cut))) and not budget.take(_text(cut)):
            structured = {"offloaded": False}
        if cut is not None:
            blocks.append(_block(_text(structured)))
    elif warning:
        budget.take(_block(warning))
        blocks.append(_block(warning))
    omitted = 0
    own = [result.parts[part] for part in result.block_parts if part is not None]
    if result.structured is not None and cut is None:
        own.insert(0, result.parts[result.structured_part])
    for index, part in enumerate(own):
        block = _cut_block(part, budget, suffix, warning, len(own) - index, result.is_error)
        omitted += block is None
        if block is not None:
            blocks.append(block)
    if omitted and budget.take(note := _block(f"Content blocks omitted: {omitted}.")):
        blocks.append(note)
    return [{"type": "text", "text": json.loads(block)["text"]} for block in blocks], structured


class _Budget:
    """The part of a limit that is left, measured on the text as sent on the wire."""

    def __init__(self, limit: dict):
        self.left, self.unit = limit["amount"], limit["unit"]

    def size(self, text: str) -> int:
        return measure(text.encode(), self.unit) + 1

    def spend(self, text: str) -> None:
        self.left -= self.size(text)

    def take(self, text: str) -> bool:
        fits = self.size(text) <= self.left
        if fits:
            self.spend(text)
        return fits


def _text(value: Any) -> str:
    return to_json(value).decode()


def _block(text: str) -> str:
    return _text({"type": "text", "text": text})


def _cut_block(part: Part, budget: _Budget, suffix: str, warning: str, shares: int, is_error: bool) -> str | None:
    """A part cut to a text block, as JSON, spent on the budget; `None` when not even a note fits."""
    if part.kind in ("text", "structured"):
        text = part.data.decode()
        whole = _block(text)
        if budget.size(whole) <= budget.left // shares and budget.take(whole):
            return whole
        cut = None if is_error else cut_value(part.data, budget.unit, warning, budget.left // shares)
        block = _ends(text, budget, suffix, budget.left // shares, is_error) if cut is None else _block(_text(cut))
        if block is not None and budget.take(block):
            return block
    kind = f"{NAMES.get(part.kind, part.kind)} {part.media_type or ''}".strip()[:96]
    note = _block(f"[omitted: {kind} of {len(part.data)} bytes]")
    return note if budget.take(note) else None


def _ends(text: str, budget: _Budget, suffix: str, most: int, is_error: bool) -> str | None:
    """The longest beginning that fits with the suffix, in an error also the end; as JSON of a text block."""

    def block(length: int) -> str:
        tail = length // 4 if is_error else 0
        return _block(text[: length - tail] + suffix + text[len(text) - tail :])

    fitting, beyond = 0, len(text) + 1
    while beyond - fitting > 1:
        # Never much more than what fits: a long text takes long to measure.
        middle = min((fitting + beyond) // 2, max(2 * fitting, most, 1))
        if budget.size(block(middle)) <= most:
            fitting = middle
        else:
            beyond = middle
    return block(fitting) if fitting else None


def cut_value(data: bytes, unit: str, warning: str, most: int) -> dict | None:
    """The object `{"offloaded": false, "warning": …, POINTER: [records], …, "omitted": {POINTER: n}}` of at most
    `most`.

    `None` when the data is not a JSON object or array, or no record and no value of it fits.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None

    def size(item: Any) -> int:
        # Quotation marks are escaped in a text block.
        return measure(_text(_text(item)).encode(), unit) + 1

    found: dict[str, Any] = {"offloaded": False, "warning": warning or WARNING}
    left = most - size(found) - size({"omitted": {}})
    omitted: dict[str, int] = {}
    sections = []
    for pointer, item in _members(value, ""):
        if isinstance(item, list) and item:
            sections.append((pointer, item))
            left -= size({pointer: []}) + size({pointer: len(item)})
        elif len(to_json(item)) <= SMALL_BYTES and size({pointer: item}) <= left:
            found[pointer] = item
            left -= size({pointer: item})
        else:
            omitted[pointer] = len(to_json(item))
            left -= size({pointer: omitted[pointer]})
    for index, (pointer, items) in enumerate(sections):
        share = left // (len(sections) - index)
        found[pointer] = []
        for item in items:
            cost = size(item)
            if cost > share:
                break
            share, left = share - cost, left - cost
            found[pointer].append(item)
        if len(found[pointer]) < len(items):
            omitted[pointer] = len(items) - len(found[pointer])
    has_any = any(found[pointer] for pointer in found if pointer not in ("offloaded", "warning"))
    return found | {"omitted": omitted} if left >= 0 and has_any else None


def _members(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    """The values other than objects, with their JSON Pointers; a small object counts as a value."""
    if not isinstance(value, dict) or (pointer and len(to_json(value)) <= SMALL_BYTES):
        yield pointer, value
        return
    for key, item in value.items():
        yield from _members(item, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
