"""Signatures of policies in the format of minisign, and what their trusted comments say: `docs/how-to/tenants.md`.

Verifying needs the package `cryptography`, the extra `signatures`.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from .errors import ComponentError, SettingsError

__all__ = ["SIGNATURE_BYTES_MAX", "SIGNATURE_SUFFIX", "Claims", "Key", "Version", "verified"]

SIGNATURE_SUFFIX = ".minisig"
"""What turns the path of a policy into that of its signature."""

SIGNATURE_BYTES_MAX = 4096

_COMMENT = "trusted comment: "
_NUMBER_MAX = (1 << 64) - 1
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?(?:[Zz]|([+-]\d\d:\d\d))", re.ASCII)


class Version(tuple):
    """Numbers of which missing ones are 0."""

    def __str__(self) -> str:
        return ".".join(map(str, self))

    def is_before(self, other: "Version") -> bool:
        """Whether it is an earlier version."""
        length = max(len(self), len(other))
        return self._padded(length) < other._padded(length)

    def _padded(self, length: int) -> tuple[int, ...]:
        return (*self, *[0] * (length - len(self)))


@dataclass(frozen=True)
class Claims:
    """What a signature says besides the bytes. Default: nothing."""

    tenant: str | None = None
    """The only tenant that may load the policy."""
    version: Version | None = None
    """It does not replace a later one."""
    expires: datetime | None = None
    """When it may no longer be loaded."""


@dataclass(frozen=True)
class Key:
    """A public key."""

    id: bytes
    key: bytes

    @classmethod
    def parse(cls, text: str) -> "Key":
        """The key of one line of base64, as `minisign -G` prints it.

        Raises:
            SettingsError: It is not one, or nothing here can verify signatures.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401
        except ImportError as error:
            raise SettingsError(
                "policy_keys: verifying needs the package `cryptography`: pip install 'lro-filter[signatures]'"
            ) from error
        data = _decoded(text) if isinstance(text, str) else None
        if data is None or len(data) != 42 or data[:2] not in (b"Ed", b"ED"):
            raise SettingsError(f"policy_keys: {text!r} is not a public key of minisign")
        return cls(data[2:10], data[10:])

    def signed(self, signature: bytes, data: bytes) -> bool:
        """Whether the signature is that of the data by this key."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, data)
        except (InvalidSignature, ValueError):
            return False
        return True


def verified(data: bytes, text: str | None, keys: Sequence[Key], tenant: str) -> Claims:
    """What the signature `text` of `data` says, which one of the keys made, and which is good for this tenant and now.

    Raises:
        ComponentError: It is not.
    """
    if text is None:
        raise ComponentError(f"policy is not signed: it needs a signature beside it (`{SIGNATURE_SUFFIX}`)")
    claims = _claims(_trusted_comment(data, text, keys))
    if claims.tenant not in (None, tenant):
        raise ComponentError(f"policy is signed for the tenant `{claims.tenant}`, not for `{tenant}`")
    now = datetime.now(timezone.utc)
    if claims.expires is not None and claims.expires <= now:
        raise ComponentError(f"policy has a signature that expired at {_shown(claims.expires)}; it is now {_shown(now)}")
    return claims


def _trusted_comment(data: bytes, text: str, keys: Sequence[Key]) -> str:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first, last = (_decoded(lines[1]), _decoded(lines[3])) if len(lines) >= 4 else (None, None)
    if first is None or last is None or len(first) != 74 or len(last) != 64 or not lines[2].startswith(_COMMENT):
        raise _refused("Invalid encoding in minisign data")
    algorithm, id, signature = first[:2], first[2:10], first[10:]
    key = next((key for key in keys if key.id == id), None)
    if key is None:
        raise _refused("The signature was created with a different key than the one provided")
    # `Ed` is of the data itself, which only old versions of minisign sign.
    if algorithm != b"ED":
        raise _refused("Unexpected signature algorithm")
    comment = lines[2].removeprefix(_COMMENT)
    is_signed = key.signed(signature, hashlib.blake2b(data).digest()) and key.signed(last, signature + comment.encode())
    if not is_signed:
        raise _refused("The signature verification failed")
    return comment


def _claims(comment: str) -> Claims:
    found: dict = {}
    for word in comment.split():
        name, is_pair, value = word.partition("=")
        if not is_pair or name not in _WORDS:
            continue
        parse, expected = _WORDS[name]
        claim = parse(value)
        if claim is None or name in found:
            expected = "it once" if name in found else expected
            raise ComponentError(f"policy has a signature with `{word}` in its trusted comment, which needs {expected}")
        found[name] = claim
    return Claims(**found)


def _version(text: str) -> Version | None:
    parts = text.split(".")
    if not all(re.fullmatch("[0-9]+", part) and int(part) <= _NUMBER_MAX for part in parts):
        return None
    return Version(map(int, parts))


def _time(text: str) -> datetime | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    date, clock, fraction, zone = found.groups()
    try:
        return datetime.fromisoformat(f"{date}T{clock}.{(fraction or '.')[1:7]:0<6}{zone or '+00:00'}")
    except ValueError:
        return None


_WORDS = {
    "tenant": (lambda text: text or None, "the name of a tenant"),
    "version": (_version, "numbers with dots between them"),
    "expires": (_time, "a time as in RFC 3339"),
}


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _refused(reason: str) -> ComponentError:
    return ComponentError(f"policy has a signature that is not accepted: {reason}")


def _shown(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
