"""ULIDs: unique ids in order of time."""

import re
import secrets
import threading
import time

__all__ = ["generate", "is_ulid", "rfc3339", "seconds"]

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_RANDOM_BITS = 80
_FORM = re.compile(f"[0-7][{_DIGITS}]{{{_LENGTH - 1}}}")
_LOCK = threading.Lock()
_last = 0


def generate() -> str:
    """A new id, greater than all previous ones of this process."""
    global _last
    with _LOCK:
        milliseconds = time.time_ns() // 1_000_000
        is_later = milliseconds > _last >> _RANDOM_BITS
        _last = milliseconds << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS) if is_later else _last + 1
        number = _last
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID in its canonical form."""
    return _FORM.fullmatch(text) is not None


def seconds(ulid: str) -> float:
    """The creation time of an id, in seconds since 1970."""
    number = 0
    for digit in ulid[:10]:
        number = number << 5 | _DIGITS.index(digit)
    return number / 1000


def rfc3339(ulid: str) -> str:
    """The creation time of an id in UTC, such as `2026-11-20T09:30:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds(ulid)))
