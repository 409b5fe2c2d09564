"""The size of a text in the units of a threshold."""

import json
import math
from typing import Any

from .errors import ResultError
from .tokens import tokens

__all__ = ["UNITS", "estimate_size", "from_json", "measure", "to_json"]

UNITS = ("bytes", "characters", "tokens")

_CONTINUATIONS = bytes(range(0x80, 0xC0))


def measure(data: bytes, unit: str) -> int:
    """Size of a text in UTF-8 in `unit`; `size-unit` of `wit/types.wit` defines the estimated token."""
    if unit == "bytes":
        return len(data)
    if unit == "characters":
        return len(data.translate(None, _CONTINUATIONS))
    return tokens(data)


def estimate_size(data: Any, unit: str = "characters") -> int:
    """The size that is compared with the threshold: of `data` as compact JSON, or of the text of a string."""
    return measure(data.encode() if isinstance(data, str) else to_json(data), unit)


def to_json(data: Any) -> bytes:
    """Compact JSON in UTF-8.

    Raises:
        ResultError: The value has no JSON form.
    """
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f"the result is not JSON: {error}") from error


def from_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: The text is not JSON, has a number that is not finite as a float, or nests too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large")
    return number
