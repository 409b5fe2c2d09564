"""Parks a policy that fails repeatedly: its results get the answer of the failure mode at once, until a call tries it again."""

import logging
import threading
import time
from dataclasses import dataclass

from .defaults import DEFAULTS
from .errors import PolicyError

__all__ = ["Breaker", "BreakerSettings"]

log = logging.getLogger("lro_filter")


@dataclass(frozen=True)
class BreakerSettings:
    """When a policy is parked, and for how long. Each is at least 1."""

    failures: int = DEFAULTS["breaker"]["failures"]
    """Failures in a row that park it."""
    pause_ms: int = DEFAULTS["breaker"]["pause_ms"]
    """Time until it is tried again; doubled with each failure of such a try."""
    pause_max_ms: int = DEFAULTS["breaker"]["pause_max_ms"]
    """Most of this time."""


class Breaker:
    """Counts the failures of one version of a policy. Can be shared by threads."""

    def __init__(self, settings: BreakerSettings, digest: str):
        self._settings, self._digest = settings, digest
        self._lock = threading.Lock()
        self._failures = 0
        self._pause_ms = 0
        """Above 0 while it is parked."""
        self._until = 0.0

    def admit(self) -> bool:
        """Whether the call that now begins is the one that tries a parked policy again.

        Raises:
            PolicyError: The policy is parked.
        """
        with self._lock:
            if not self._pause_ms:
                return False
            now = time.monotonic()
            if now < self._until:
                left = int((self._until - now) * 1000)
                raise PolicyError("parked", f"the policy is parked for {left} ms more after repeated failures")
            # If this call never ends, the next pause admits another one.
            self._until = now + self._pause_ms / 1000
            return True

    def succeeded(self, is_trial: bool) -> None:
        """Counts a call that `admit` let through. Of a parked policy only that which tries it counts."""
        with self._lock:
            if self._pause_ms and not is_trial:
                return
            if self._pause_ms:
                log.warning("the policy with the SHA-256 %s works again", self._digest)
            self._failures = self._pause_ms = 0

    def failed(self, is_trial: bool) -> None:
        """As `succeeded`, of a call that failed by the fault of the policy."""
        of = self._settings
        with self._lock:
            if self._pause_ms and not is_trial:
                return
            self._failures += 1
            if not self._pause_ms and self._failures < of.failures:
                return
            self._pause_ms = min(self._pause_ms * 2 or of.pause_ms, of.pause_max_ms)
            self._until = time.monotonic() + self._pause_ms / 1000
        log.error("the policy with the SHA-256 %s is parked for %d ms after repeated failures", self._digest, self._pause_ms)
