"""Settings, with the names and defaults of the lro-filter host."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .breaker import BreakerSettings
from .component import Limits
from .defaults import DEFAULTS, PRESETS
from .errors import SettingsError
from .signature import Key

__all__ = ["OffloadSection", "Settings"]

OWN = (
    "enabled", "dir", "ttl_seconds", "fsync", "quota_file", "quota_tenant", "preset", "tenant", "abilities", "limits", "breaker",
    "policy_keys",
)  # fmt: skip
"""Settings of this package. Components check all others."""

FSYNC = ("before", "after", "never")

TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True)
class OffloadSection:
    """A part of the result that becomes a file of records."""

    key: str
    """JSON Pointer such as `/data/items`, or a plain top-level key such as `results`."""
    filename_prefix: str | None = None
    """Beginning of the file name. Default: the last step of the key."""
    schema: dict | str | None = None
    """JSON Schema of a record. Default: inferred."""
    summaries: Sequence[Mapping] = ()
    """Summaries besides the count: `{"kind": "range" | "top-values" | "distinct", "field": "/price"}`."""
    recipes: Sequence[Mapping] = ()
    """Recipes before the policy's own: `{"name", "description", "command"}`, with `{file}` for the quoted path."""

    def given(self) -> dict:
        """The section with the names of the settings."""
        found = {name.replace("_", "-"): value for name, value in vars(self).items() if value is not None}
        if not isinstance(self.schema, str | None):
            found["schema"] = json.dumps(self.schema)
        return found


@dataclass(frozen=True)
class Settings:
    """All settings. Sizes are in `unit`; a result of exactly the threshold passes."""

    enabled: bool = DEFAULTS["enabled"]
    """Whether results are filtered. If not, every result passes unchanged, without a policy call."""
    dir: Path | None = None
    """Root of the offloads. Default: `$XDG_CACHE_HOME/lro-filter`, else `~/.cache/lro-filter`."""
    ttl_seconds: int = DEFAULTS["ttl_seconds"]
    """Age at which an offload expires."""
    fsync: str = DEFAULTS["fsync"]
    """When an offload is synchronized to the disk: `before` it is published, `after` the answer, or `never` by us."""
    failure: str = DEFAULTS["failure"]
    """What happens when a policy fails: `open` passes the result, or cuts it when it cannot be written; `truncate`;
    `closed` answers with an error."""
    quota_file: int = DEFAULTS["quota_file"]
    """Most bytes of one file."""
    quota_tenant: int = DEFAULTS["quota_tenant"]
    """Most bytes of all offloads of the tenant; the oldest are removed first."""
    mode: str = DEFAULTS["mode"]
    """When the action applies to a result: `by-size`, `always`, `never`."""
    threshold: int = DEFAULTS["threshold"]
    """The action applies to larger results."""
    unit: str = DEFAULTS["unit"]
    """`bytes`, `characters` or `tokens`."""
    preset: str | None = None
    """Threshold and unit by name: `1600-tokens`, `25k`."""
    action: str = DEFAULTS["action"]
    """The action: `offload`, `truncate`, `reject`."""
    sections: Sequence[OffloadSection | str] = ()
    """Sections to write. Default: the policy finds them."""
    inline_keys: Sequence[str] = ()
    """Keys repeated in the descriptor."""
    inline_limit: int = DEFAULTS["inline_limit"]
    """Most bytes of any other value that stays inline."""
    infer: bool = DEFAULTS["infer"]
    """Whether schemas and summaries are inferred."""
    header_type: str = DEFAULTS["header_type"]
    """`type` in the header line of each JSONL file."""
    session_key: str | None = None
    """Key of the result whose value identifies the session in file names."""
    level: str = DEFAULTS["level"]
    """Level of detail of a descriptor: `pointer`, `standard`, `full`."""
    dialect: str = DEFAULTS["dialect"]
    """Field names of a descriptor: `sections`, `specification`."""
    descriptor_limit: int = DEFAULTS["descriptor_limit"]
    """Most characters of a descriptor."""
    truncate_limit: int | None = None
    """Size of a truncated result. Default: the threshold."""
    truncate_suffix: str = DEFAULTS["truncate_suffix"]
    """Text after the cut of a truncated result."""
    advice: str = DEFAULTS["advice"]
    """Advice of a rejected result. Default: the policy's."""
    images: str = "keep"
    """What happens to images and sounds: `keep` leaves them in the reply, within the bounds; `offload`."""
    images_max: int = 20
    """Most images and sounds that stay in the reply."""
    images_bytes: int = 8 << 20
    """Most bytes of all images and sounds together that stay in the reply."""
    custom: str | None = None
    """Policy-specific settings, by convention JSON."""
    schema: str = DEFAULTS["schema"]
    """Output schemas of tools: `rewrite` also allows the descriptor, `strip` removes the schemas."""
    tenant: str = "default"
    """Tenant, which has its own directory of offloads."""
    abilities: Sequence[str] = ("shell",)
    """What the reader of the descriptor can use: `shell` on the same disk, `extract-tool`, `read-tool`."""
    limits: Limits | Mapping[str, int] = field(default_factory=Limits)
    """Limits of each policy call: `Limits`, or some of its members by name."""
    breaker: BreakerSettings | Mapping[str, int] = field(default_factory=BreakerSettings)
    """When a policy that fails repeatedly is parked: `BreakerSettings`, or some of its members by name."""
    policy_keys: Sequence[str] = ()
    """minisign public keys, one of which must have signed the policy. Default: no signature is asked for."""

    def __post_init__(self):
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise SettingsError(f"preset = {self.preset!r}: expected one of {', '.join(PRESETS)}")
            object.__setattr__(self, "threshold", PRESETS[self.preset]["amount"])
            object.__setattr__(self, "unit", PRESETS[self.preset]["unit"])
        self._check_number("ttl_seconds", self.ttl_seconds, 1)
        if self.fsync not in FSYNC:
            raise SettingsError(f"fsync = {self.fsync!r}: expected one of {', '.join(FSYNC)}")
        for name in ("quota_file", "quota_tenant"):
            self._check_number(name, getattr(self, name), 0)
        for name in ("sections", "inline_keys", "abilities", "policy_keys"):
            if isinstance(getattr(self, name), str):
                raise SettingsError(f"{name} = {getattr(self, name)!r}: expected a list")
        if self.dir is not None:
            object.__setattr__(self, "dir", Path(self.dir))
        for name, form in {"limits": Limits, "breaker": BreakerSettings}.items():
            value = getattr(self, name)
            if not isinstance(value, form):
                try:
                    object.__setattr__(self, name, form(**value))
                except TypeError as error:
                    raise SettingsError(f"{name} = {value!r}: {error}") from None
        for name, value in vars(self.breaker).items():
            self._check_number(f"breaker.{name}", value, 1)
        for key in self.policy_keys:
            Key.parse(key)

    @staticmethod
    def _check_number(name: str, value: Any, least: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
            raise SettingsError(f"{name} = {value!r}: expected a whole number of at least {least}")

    @classmethod
    def read(cls, env_prefix: str = "MCP_LRO", **given: Any) -> "Settings":
        """The given settings, completed from environment variables where missing or `None`.

        A variable is `{env_prefix}_` and the name in upper case, such as `MCP_LRO_THRESHOLD`.

        Raises:
            SettingsError: A value is invalid, or a name is unknown.
        """
        given = {name: value for name, value in given.items() if value is not None}
        forms = {item.name: item.type for item in fields(cls)}
        if unknown := given.keys() - forms.keys():
            raise SettingsError(f"unknown setting: {', '.join(sorted(unknown))}")
        for name, form in forms.items():
            variable = f"{env_prefix}_{name.upper()}"
            # A given threshold overrides a preset of the environment.
            is_given = name in given or (name == "preset" and given.keys() & {"threshold", "unit"})
            if variable in os.environ and not is_given and name not in ("sections", "limits", "breaker"):
                given[name] = _parsed(variable, os.environ[variable], form)
        return cls(**given)

    def given(self) -> dict:
        """The settings that a component checks, with the names of the lro-filter host."""
        found = {name.replace("_", "-"): value for name, value in vars(self).items() if name not in OWN}
        found |= given(self.sections, self.inline_keys)
        found["limits"] = {"written-bytes": self.limits.written_bytes, "files": self.limits.files}
        return {name: value for name, value in found.items() if value is not None}


def given(sections: Sequence[OffloadSection | str] | None, inline_keys: Sequence[str] | None) -> dict:
    """These settings with the names of the lro-filter host, without those that are `None`."""
    found: dict[str, Any] = {}
    if sections is not None:
        found["sections"] = [(OffloadSection(each) if isinstance(each, str) else each).given() for each in sections]
    if inline_keys is not None:
        found["inline-keys"] = list(inline_keys)
    return found


def _parsed(variable: str, text: str, form: Any) -> Any:
    if form is bool:
        if text.lower() not in TRUTH:
            raise SettingsError(f"{variable} = {text!r}: expected one of {', '.join(TRUTH)}")
        return TRUTH[text.lower()]
    if form in (int, int | None):
        try:
            return int(text)
        except ValueError:
            raise SettingsError(f"{variable} = {text!r}: expected a whole number") from None
    if form == Sequence[str]:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def default_dir() -> Path:
    """The default root of offloads."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "lro-filter"
