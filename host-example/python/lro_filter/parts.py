"""Takes a tool result apart, and puts it together again with a descriptor in place of data.

A text that only repeats the structured content gets no separate part and is kept or replaced with it. Blocks of
unknown types, and blocks with much besides their text or data, become one part with their JSON.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .component import Part
from .errors import ResultError
from .sizes import from_json, to_json

__all__ = ["ToolResult", "parse"]

BLOCK_EXTRA_BYTES_MAX = 1_024
"""Most bytes of a content block besides its text or data."""


@dataclass
class ToolResult:
    """A tool result, its original blocks, and its parts."""

    content: Sequence[Any]
    """Content blocks: as in the result, of any type."""
    structured: dict | None
    """Structured content."""
    meta: dict | None
    """Metadata."""
    is_error: bool
    parts: list[Part] = field(default_factory=list)
    """Content blocks first, then structured content, then metadata."""
    block_parts: list[int | None] = field(default_factory=list)
    """For each block the index of its part; `None` for a copy of the structured content."""
    structured_part: int | None = None
    meta_part: int | None = None

    def offloaded(self, descriptor: str, plan: dict) -> tuple[list[Any], dict | None, dict | None]:
        """Content, structured content and metadata with the descriptor in place of every part that is not kept.

        A new text block is a `dict`; kept blocks are the same objects as before.
        """
        kept = [part == "keep" for part in plan["parts"]]
        blocks = [{"type": "text", "text": descriptor}]
        content = []
        for original, part in zip(self.content, self.block_parts, strict=True):
            if _is_kept(kept, self.structured_part if part is None else part):
                content.append(original)
            elif blocks:
                content.append(blocks.pop())
        content += blocks
        structured = self.structured
        if structured is not None and not _is_kept(kept, self.structured_part):
            structured = from_json(descriptor)
        return content, structured, self.meta if _is_kept(kept, self.meta_part) else None


def _is_kept(kept: list[bool], part: int | None) -> bool:
    return part is not None and part < len(kept) and kept[part]


def parse(
    content: Sequence[Any],
    structured: dict | None = None,
    meta: dict | None = None,
    is_error: bool = False,
    dump: Callable[[Any], bytes] = to_json,
) -> ToolResult:
    """Takes a result apart. Blocks are dicts as on the wire, or models of `mcp`; `dump` writes JSON.

    Raises:
        ResultError: A part has no JSON form, or a text is not UTF-8.
    """
    result = ToolResult(content, structured, meta, is_error)
    try:
        value = None if structured is None else Part("structured", dump(structured))
        for block in content:
            part = _block_part(block, dump)
            is_plain = value is not None and part.kind == "text" and part.name is None
            same = _same(part.data, value.data, structured) if is_plain else None
            if same:
                value = part if same == "text" else value
                result.block_parts.append(None)
            else:
                result.block_parts.append(len(result.parts))
                result.parts.append(part)
        if value is not None:
            result.structured_part = len(result.parts)
            result.parts.append(value)
        if meta is not None:
            result.meta_part = len(result.parts)
            result.parts.append(Part("meta", dump(meta)))
    except UnicodeEncodeError as error:
        raise ResultError(f"a text of the result is not UTF-8: {error}") from error
    return result


def _block_part(block: Any, dump: Callable[[Any], bytes]) -> Part:
    plain = block if isinstance(block, dict) else block.model_dump(mode="json", by_alias=True, exclude_none=True)
    found = _known_part(plain)
    if found is not None:
        part, rest = found
        if len(dump(rest)) <= BLOCK_EXTRA_BYTES_MAX:
            return part
    return Part("block", dump(plain))


def _known_part(block: dict) -> tuple[Part, dict] | None:
    """The part of a block of a known type, and the rest of the block."""
    match block:
        case {"type": "text", "text": str(text), **rest}:
            return Part("text", text.encode()), rest
        case {"type": "image" | "audio", "data": str(data), **rest}:
            return _binary(data, rest, rest)
        case {"type": "resource", "resource": {"text": str(text), **rest}, **others} if "blob" not in rest:
            return Part("text", text.encode(), rest.get("mimeType"), rest.get("uri")), rest | others
        case {"type": "resource", "resource": {"blob": str(data), **rest}, **others} if "text" not in rest:
            return _binary(data, rest, rest | others)
    return None


def _binary(data: str, of: dict, rest: dict) -> tuple[Part, dict] | None:
    try:
        return Part("binary", base64.b64decode(data, validate=True), of.get("mimeType"), of.get("uri")), rest
    except (binascii.Error, ValueError):
        return None


def _same(text: bytes, value: bytes, structured: dict) -> str | None:
    """The one that becomes the part when a text and the structured content are equal: `structured` or `text`."""
    if _same_json(text, value):
        return "structured"
    if not isinstance(structured, dict) or len(structured) != 1:
        return None
    ((key, lone),) = structured.items()
    if isinstance(lone, str):
        return "text" if lone.encode() == text else None
    # Servers wrap values that are not objects.
    return "structured" if key == "result" and _same_json(text, value[len(b'{"result":') : -1]) else None


def _same_json(text: bytes, value: bytes) -> bool:
    """Whether two JSON texts have the same tokens, whatever their white space and escapes."""
    if text == value:
        return True
    if text[:1] not in b'{[ \t\r\n"-0123456789tfn' or not value:
        return False
    white = b" \t\r\n"
    if text.translate(None, white) != value.translate(None, white) and b"\\" not in text and b"\\" not in value:
        return False
    try:
        return _tokens(text) == _tokens(value)
    except (ValueError, RecursionError):
        return False


def _tokens(text: bytes) -> Any:
    """A JSON value that keeps numbers as written and members in order, duplicate keys included."""
    return json.loads(text, parse_float=_Number, parse_int=_Number, object_pairs_hook=tuple)


class _Number(str):
    """A number as written, unequal to the same text in a string."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and str.__eq__(self, other)

    __hash__ = str.__hash__
