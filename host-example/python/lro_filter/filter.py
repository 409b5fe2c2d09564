"""Filters one result by one policy, and publishes its files."""

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import store, ulid
from .breaker import Breaker
from .component import DEFAULT_COMPONENT, Message, Policy, load, read
from .errors import ComponentError, PolicyError, Rejected, ResultError, SettingsError, StoreError
from .settings import Settings, default_dir
from .signature import SIGNATURE_BYTES_MAX, SIGNATURE_SUFFIX, Claims, Key, verified
from .sizes import is_sendable
from .watch import file_state, watch_file

__all__ = ["Filter", "not_json"]

log = logging.getLogger("lro_filter")


@dataclass(frozen=True)
class Version:
    """A policy of a filter."""

    policy: Policy
    claims: Claims
    breaker: Breaker


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
        self._keys = [Key.parse(key) for key in settings.policy_keys]
        self._version = self._load(component, sha256, Claims())
        self.policy.check(json.dumps(settings.given()))
        if watch:
            watch_file(self, component, state)
        self._store: store.Store | None = None
        self._opening = threading.Lock()

    @property
    def policy(self) -> Policy:
        """The current policy."""
        return self._version.policy

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

    def swap(self, component: str | Path | bytes, *, sha256: str | None = None, allow_older: bool = False) -> str:
        """Uses another policy for the results from now on, and returns its SHA-256. Blocks while it is compiled.

        A result that the policy before has begun stays with it to its end. `allow_older` takes one whose signature states an
        earlier version.

        Raises:
            ComponentError: It cannot be used: nothing changes.
        """
        # In turn, so that of two swaps the later one lasts.
        with self._swapping:
            version = self._load(component, sha256, Claims() if allow_older else self._version.claims)
            self._version = version
        digest = version.policy.digest
        log.info("the policy is now the one with the SHA-256 %s", digest)
        return digest

    def _load(self, component: str | Path | bytes | None, sha256: str | None, serving: Claims) -> Version:
        """A policy that is not older than what the signature of another says."""
        claims = Claims()
        is_default = component is None or (not isinstance(component, bytes) and Path(component) == DEFAULT_COMPONENT)
        if self._keys and not is_default:
            # First, as a writer that replaces both writes it last: a new signature never meets an old policy.
            signature = None if isinstance(component, bytes) else _signature(component)
            component = component if isinstance(component, bytes) else read(Path(component))
            claims = verified(component, signature, self._keys, self.settings.tenant)
            if serving.version and (claims.version is None or claims.version.is_before(serving.version)):
                found = f"policy has the version {claims.version or 'none'}, and the tenant's has {serving.version}"
                raise ComponentError(f"{found}: an older one is loaded only on request (allow_older)")
        policy = load(component, sha256=sha256)
        return Version(policy, claims, Breaker(self.settings.breaker, policy.digest))

    def apply(
        self,
        result: Message,
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
        reply = self._reply(self._version, request, result)
        if "failure" in reply:
            log.warning("%s: %s", tool, reply["failure"]["reason"])
        for note in reply["notes"]:
            log.info("%s: %s", tool, note)
        if reply["outcome"] != "pass":
            log.info("%s: large tool result: %s", tool, reply["outcome"])
        return reply

    def _reply(self, version: Version, request: dict, result: Message) -> dict:
        policy = version.policy
        try:
            of = self.store
            request["shown-path"] = of.shown_path(request["id"])
            with of.staging(request["id"]) as directory:
                try:
                    reply = self._decided(version, request, result, directory)
                except PolicyError as error:
                    # Its first file is there from the moment the policy is asked to write.
                    return policy.failed(request, result, str(error), any(directory.iterdir()))
                if reply["outcome"] == "offload":
                    of.publish(directory, request["id"], reply["files"])
                return reply
        except StoreError as error:
            return self._unwritten(version, request, result, error)

    def _unwritten(self, version: Version, request: dict, result: Message, error: StoreError) -> dict:
        """The reply without a store, which only matters when a result has to be written."""
        policy = version.policy
        try:
            reply = self._decided(version, request, result, None)
        except PolicyError as failure:
            return policy.failed(request, result, str(failure), failure.kind != "parked")
        return policy.failed(request, result, str(error), True) if "failure" in reply else reply

    def _decided(self, version: Version, request: dict, result: Message, directory: Path | None) -> dict:
        """The reply of the policy, unless it is parked. What is its fault counts.

        Raises:
            PolicyError: There is none.
        """
        is_trial = version.breaker.admit()
        try:
            reply = version.policy.filter(request, result, directory, self.settings.limits)
            if reply["outcome"] == "offload" and not is_sendable(reply["descriptor"]):
                raise PolicyError("answer", "the policy answered with a descriptor that is too deep, or has a number too large")
        except PolicyError:
            version.breaker.failed(is_trial)
            raise
        failure = reply.get("failure")
        if failure is None:
            version.breaker.succeeded(is_trial)
        elif failure["false-answer"]:
            version.breaker.failed(is_trial)
        return reply


def _signature(path: str | Path) -> str | None:
    """The signature beside a policy; `None` if there is none."""
    path = Path(f"{path}{SIGNATURE_SUFFIX}")
    try:
        with path.open("rb") as file:
            data = file.read(SIGNATURE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ComponentError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > SIGNATURE_BYTES_MAX:
        raise ComponentError(f"{path} has more than {SIGNATURE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


def not_json(error: ResultError, tool: str, settings: Settings, result: Any) -> Any:
    """What becomes of a result that is not JSON, which no policy can see: it passes, unless `failure` is `closed`."""
    log.warning("%s: no decision: %s", tool, error)
    if settings.failure == "closed":
        raise Rejected(f"the result could not be filtered: {error}")
    return result
