"""The estimate of tokens that `size-unit` of `wit/types.wit` defines. Costs are in hundredths of a token.

Regular expressions count each class of characters in the whole text: a loop over characters takes many times longer.
"""

import re
from bisect import bisect
from collections import Counter
from itertools import pairwise

__all__ = ["tokens"]

_SMALL = "a-z\u0080-\u02ff\u1e00-\u1eff"
_LETTERS = f"A-Z{_SMALL}"
_SIGNS = r"\x00-\x08\x0b\x0c\x0e-\x1f!-/:-@\[-`{-\x7f"

_PIECE = re.compile(f"[A-Z]+[{_SMALL}]*|[{_SMALL}]+")
_CAPITALS = re.compile("[A-Z]{2,}")
# A vowel before a character that is not a letter, the fourth letter of a piece or a later one.
_VOWEL = re.compile(
    f"[AIOUaiou](?=[^{_LETTERS}])"
    f"(?:(?<=[A-Z][A-Z][A-Z][{_LETTERS}])|(?<=[A-Z][{_LETTERS}][{_SMALL}][a-z])|(?<=[{_SMALL}][{_SMALL}][{_SMALL}][a-z]))"
)
_DIGITS = re.compile("[0-9]+")
_DIGITS_AFTER_SPACE = re.compile(" [0-9]")
_SIGN_RUNS = re.compile(f"[{_SIGNS}]+")
_SAME_SIGN = re.compile(rf"([{_SIGNS}])(?=\1)")
_BREAKS = re.compile("[\r\n]+")
_SPACES = re.compile("  +")
_BEYOND_ASCII = re.compile("[^\x00-\x7f]")

# A character beyond ASCII, from the code point on.
# fmt: off
_FROM = (
    0x80, 0x100, 0x300, 0x370, 0x400, 0x450, 0x530, 0x590, 0x600, 0x900, 0x980, 0xA00, 0xB00, 0xE00, 0xE80, 0x1000,
    0x10A0, 0x1100, 0x1200, 0x1E00, 0x1F00, 0x2000, 0x2070, 0x2500, 0x25A0, 0x3000, 0x3040, 0x3100, 0xA000, 0xAC00,
    0xD7A4, 0xF900, 0xFB00, 0xFE00, 0x10000,
)
_COSTS = (
    217, 263, 50, 133, 58, 283, 215, 107, 110, 134, 217, 318, 217, 180, 304, 101,
    137, 101, 302, 287, 133, 120, 172, 180, 172, 90, 104, 101, 250, 143,
    250, 101, 250, 90, 241,
)
# fmt: on


def tokens(data: bytes) -> int:
    """Estimated tokens of a text in UTF-8."""
    text = data.decode("utf-8", "replace")
    hundredths = _letters(text) + _signs(text)
    if not text.isascii():
        characters = Counter(_BEYOND_ASCII.findall(text))
        hundredths += sum(_COSTS[bisect(_FROM, ord(one)) - 1] * count for one, count in characters.items())
    return min(-(-hundredths // 100), len(data))


def _letters(text: str) -> int:
    pieces = _PIECE.findall(text)
    long = [piece for piece in pieces if len(piece) > 8]
    # The rest of the cost of a piece comes with its second letter.
    after_t = [piece[1:2] for piece in pieces if piece[0] in "tT"]
    return (
        115 * len(pieces)
        + sum(30 * (len(piece) - 8) + 30 * _changes(piece[15:]) for piece in long)
        - 85 * sum(second in ("", "h", "H") for second in after_t)
        + 108 * len(_CAPITALS.findall(text))
        + 112 * len(_VOWEL.findall(text))
    )


def _changes(letters: str) -> int:
    """Letters but the first that are unlike their predecessor, or beyond ASCII."""
    return sum(one != before or one > "\x7f" for before, one in pairwise(letters))


def _signs(text: str) -> int:
    digits = Counter(map(len, _DIGITS.findall(text)))
    signs = _SIGN_RUNS.findall(text)
    same = len(_SAME_SIGN.findall(text))
    others = sum(map(len, signs)) - len(signs) - same
    breaks = _BREAKS.findall(text)
    return (
        114 * sum((length + 2) // 3 * count for length, count in digits.items())
        + 85 * len(_DIGITS_AFTER_SPACE.findall(text))
        + 79 * len(signs)
        + 11 * others
        + 16 * same
        + 110 * len(breaks)
        + 6 * (sum(map(len, breaks)) - len(breaks))
        + 42 * text.count("\t")
        + sum(len(spaces) - 1 for spaces in _SPACES.findall(text))
    )
