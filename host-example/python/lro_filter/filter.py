"""Filters one result by one policy, and publishes its files."""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import store, ulid
from .component import Policy, load
from .errors import PolicyError, Rejected, ResultError, SettingsError, StoreError
from .settings import Settings, default_dir
from .sizes import is_sendable
from .watch import file_state, watch_file

__all__ = ["Filter", "not_json"]

log = logging.getLogger("lro_filter")


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
        self.policy.check(json.dumps(settings.given()))
        if watch:
            watch_file(self, component, state)
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
        result: str,
        tool: str,
        *,
        query: str | None = None,
        session: str | None = None,
        settings: dict[str, Any] | None = None,
        abilities: Sequence[str] | None = None,
    ) -> dict:
        """Decides on a result, a `CallToolResult` as JSON, and writes its files. Blocks.

        `query` is the request, by convention the arguments as compact JSON. `settings` replaces settings for this call, and
        `abilities` what its reader can use.
        Returns the `reply` of `wit/adapter/filter.wit`; the setting `failure` decides when the policy fails.

        Raises:
            SettingsError: `settings` are invalid.
            ResultError: The result is not one.
        """
        request = {
            "id": ulid.generate(),
            "tenant": self.settings.tenant,
            "session": session,
            "tool": tool,
            "query": query,
            "shown-path": "",
            "abilities": list(self.settings.abilities if abilities is None else abilities),
            "settings": json.dumps(self.settings.given() | (settings or {})),
        }
        # One policy for the verdict and the files.
        reply = self._reply(self.policy, request, result)
        if "failure" in reply:
            log.warning("%s: %s", tool, reply["failure"])
        for note in reply["notes"]:
            log.info("%s: %s", tool, note)
        if reply["outcome"] != "pass":
            log.info("%s: large tool result: %s", tool, reply["outcome"])
        return reply

    def _reply(self, policy: Policy, request: dict, result: str) -> dict:
        try:
            of = self.store
            request["shown-path"] = of.shown_path(request["id"])
            with of.staging(request["id"]) as directory:
                try:
                    reply = policy.filter(request, result, directory, self.settings.limits)
                except PolicyError as error:
                    # Its first file is there from the moment the policy is asked to write.
                    return policy.failed(request, result, str(error), any(directory.iterdir()))
                if reply["outcome"] == "offload":
                    if not is_sendable(reply["descriptor"]):
                        reason = "the policy answered with a descriptor that is too deep, or has a number too large"
                        return policy.failed(request, result, reason, True)
                    of.publish(directory, request["id"], reply["files"])
                return reply
        except StoreError as error:
            return self._unwritten(policy, request, result, error)

    def _unwritten(self, policy: Policy, request: dict, result: str, error: StoreError) -> dict:
        """The reply without a store, which only matters when a result has to be written."""
        try:
            reply = policy.filter(request, result, None, self.settings.limits)
        except PolicyError as failure:
            return policy.failed(request, result, str(failure), True)
        return policy.failed(request, result, str(error), True) if "failure" in reply else reply


def not_json(error: ResultError, tool: str, settings: Settings, result: Any) -> Any:
    """What becomes of a result that is not JSON, which no policy can see: it passes, unless `failure` is `closed`."""
    log.warning("%s: no decision: %s", tool, error)
    if settings.failure == "closed":
        raise Rejected(f"the result could not be filtered: {error}")
    return result
