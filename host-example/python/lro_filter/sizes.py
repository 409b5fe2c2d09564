"""Results as JSON, and their sizes."""

import json
import math
from typing import Any

from .component import load
from .errors import ResultError

__all__ = ["estimate_size", "is_sendable", "measured", "to_json"]

LEVELS_MAX = 200
"""Most levels of a descriptor: FastMCP cannot send a message of more than 255."""


def estimate_size(data: Any, unit: str = "characters") -> int:
    """The size that is compared with the threshold: of `data` as compact JSON, or of the text of a string."""
    return load().size(measured(data), unit)


def measured(data: Any) -> str:
    """The text whose size is that of a value: a string itself, else compact JSON.

    Raises:
        ResultError: The value has no JSON form.
    """
    return data if isinstance(data, str) else to_json(data).decode()


def to_json(data: Any) -> bytes:
    """Compact JSON in UTF-8.

    Raises:
        ResultError: The value has no JSON form, or a text of it no UTF-8.
    """
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"the result is not JSON: {error}") from error


def is_sendable(text: str) -> bool:
    """Whether a JSON text is not nested too deeply for FastMCP, and has only numbers that are finite as floats."""
    try:
        level = [json.loads(text)]
    except RecursionError:
        return False
    for _ in range(LEVELS_MAX + 1):
        if any(isinstance(item, float) and math.isinf(item) for item in level):
            return False
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
    return not level
