"""Filters one result by one policy: inspect, write, publish, or apply the failure mode."""

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import store, ulid
from .component import Part, Policy, load, printable
from .errors import LROError, PolicyError, ResultError, SettingsError, StoreError
from .settings import Settings, default_dir
from .sizes import from_json
from .watch import file_state, watch_file

__all__ = ["Decision", "Filter"]

log = logging.getLogger("lro_filter")

LEVELS_MAX = 200
"""Most levels of a descriptor: FastMCP cannot send a message of more than 255."""


@dataclass(frozen=True)
class Decision:
    """The decision on a result."""

    verdict: str
    """`pass`, `offload`, `truncate`, `reject`; `fail` when the failure mode is `closed`."""
    text: str = ""
    """The descriptor as JSON, the advice, or the reason why a result was cut or blocked."""
    plan: dict | None = None
    """The `plan` of an offload, as plain data."""
    cut: dict | None = None
    """The `truncation`."""
    id: str = ""
    """Id of the offload."""


class Filter:
    """A policy, its store and its settings. Can be shared by calls and threads.

    `sha256` is the digest that the policy must have. With `watch`, another policy in the file `component` takes its place.
    """

    def __init__(
        self,
        settings: Settings,
        component: str | Path | bytes | None = None,
        *,
        sha256: str | None = None,
        watch: bool = False,
    ):
        self.settings = settings
        self._swapping = threading.Lock()
        if watch and not isinstance(component, str | Path):
            raise SettingsError("watch: needs `component`, the path of the file that is watched")
        if watch and sha256 is not None:
            raise SettingsError("watch: a file with another policy never has the digest `sha256`: give one of them")
        # Before it is loaded, so that no change is missed.
        state = file_state(component) if watch else None
        self.policy: Policy = load(component, sha256=sha256)
        if watch:
            watch_file(self, component, state)
        self._record = settings.record()
        self._store: store.Store | None = None
        self._opening = threading.Lock()

    @property
    def store(self) -> store.Store:
        """The store, opened and swept on first access.

        Raises:
            StoreError: The store cannot be opened.
        """
        with self._opening:
            if self._store is None:
                of = self.settings
                root = of.dir or default_dir()
                self._store = store.Store(root, of.tenant, of.ttl_seconds, of.fsync, of.quota_file, of.quota_tenant)
            return self._store

    def swap(self, component: str | Path | bytes, *, sha256: str | None = None) -> str:
        """Uses another policy for the results from now on, and returns its SHA-256. Blocks while it is compiled.

        A result that the policy before has begun stays with it to its end.

        Raises:
            ComponentError: It cannot be used: nothing changes.
        """
        # In turn, so that of two swaps the later one lasts.
        with self._swapping:
            policy = load(component, sha256=sha256)
            self.policy = policy
        log.info("the policy is now the one with the SHA-256 %s", policy.digest)
        return policy.digest

    def apply(
        self,
        parts: Sequence[Part],
        tool: str,
        *,
        query: str | None = None,
        session: str | None = None,
        is_error: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> Decision:
        """Decides on a result and writes its files. Blocks; the failure mode handles errors of the policy.

        `query` is the request, by convention the arguments as compact JSON. `settings` replaces members of the
        record `settings` for this call.
        """
        id = ulid.generate()
        call = {
            "id": id,
            "time": ulid.rfc3339(id),
            "tenant": self.settings.tenant,
            "session": session,
            "tool": tool,
            "query": query,
            "is-error": is_error,
            "reader": {"abilities": list(self.settings.abilities)},
            "settings": self._record | (settings or {}),
        }
        # One policy for the verdict and the files.
        policy, wrote = self.policy, False
        try:
            call["shown-path"] = self._shown_path(id)
            verdict = policy.inspect(call, parts, self.settings.limits)
            match verdict:
                case "pass":
                    return Decision("pass")
                case {"truncate": cut}:
                    return self._logged(Decision("truncate", cut=cut), tool)
                case {"reject": advice}:
                    return self._logged(Decision("reject", advice[: self.settings.descriptor_limit]), tool)
                case {"offload": plan}:
                    wrote = True
                    return self._logged(self._offload(policy, call, parts, plan), tool)
            raise PolicyError("answer", f"the policy answered with {verdict}")
        except (LROError, OSError, RecursionError, UnicodeEncodeError) as error:
            return self.failed(error, tool, wrote)

    def failed(self, error: Exception, tool: str, wrote: bool = False) -> Decision:
        """The answer of the failure mode. `wrote` says whether the policy had already decided to write files."""
        log.warning("%s: %s: %s", tool, "not written" if wrote else "no decision", error)
        if self.settings.failure == "closed":
            return Decision("fail", f"the result could not be filtered: {error}")
        if isinstance(error, ResultError) or (self.settings.failure == "open" and not wrote):
            return Decision("pass")
        warning = f"The result could not be written to files ({error}), so a part of it follows."
        return Decision("truncate", warning, cut=self.settings.cut)

    def _shown_path(self, id: str) -> str:
        try:
            return self.store.shown_path(id)
        except StoreError:
            # An unusable store only matters when a result has to be written.
            return ""

    def _offload(self, policy: Policy, call: dict, parts: Sequence[Part], plan: dict) -> Decision:
        limits, id = self.settings.limits, call["id"]
        if len(plan["parts"]) != len(parts):
            raise PolicyError("answer", "the number of parts in the plan differs from that of the result")
        with self.store.staging(id) as directory:
            written = policy.write(call, parts, plan, directory, limits)
            descriptor, files = written["content"], written["files"]
            self._check(descriptor, files)
            entries = self.store.publish(directory, id, call, descriptor, files)
        if call["settings"]["level"] == "full":
            descriptor = _with_integrity(descriptor, entries)
        for note in written["notes"]:
            log.info("%s: %s", call["tool"], printable(note))
        return Decision("offload", descriptor, plan, id=id)

    def _check(self, descriptor: str, files: list[dict]) -> None:
        limits = self.settings.limits
        if len(descriptor) > self.settings.descriptor_limit:
            raise PolicyError("answer", "the policy answered with a descriptor over its limit")
        try:
            value = from_json(descriptor)
        except ValueError:
            value = None
        if not isinstance(value, dict) or _is_deeper(value, LEVELS_MAX):
            raise PolicyError("answer", "the policy answered with a descriptor that is not a JSON object or too deep")
        if len(files) > limits.files or sum(file["bytes"] for file in files) > limits.written_bytes:
            raise PolicyError("answer", "the policy wrote more than limits.files or limits.written_bytes")

    def _logged(self, decision: Decision, tool: str) -> Decision:
        log.info("%s: large tool result: %s %s", tool, decision.verdict, decision.id)
        return decision


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested more deeply than `levels`."""
    level = [value]
    for _ in range(levels + 1):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
    return bool(level)


def _with_integrity(descriptor: str, entries: list[dict]) -> str:
    """A descriptor with size and digest of each file as its last member."""
    integrity = {entry["name"]: {name: entry[name] for name in ("bytes", "sha256", "digest_from")} for entry in entries}
    return f'{descriptor.rstrip()[:-1]},"integrity":{json.dumps(integrity, separators=(",", ":"))}}}'
