"""Swaps the policy of a filter when its file changes."""

import logging
import os
import threading
import weakref
from pathlib import Path
from typing import Any

from .errors import LROError
from .signature import SIGNATURE_SUFFIX

__all__ = ["file_state", "watch_file"]

log = logging.getLogger("lro_filter")

INTERVAL_SECONDS = 0.5
"""Time between two looks at the file. A change counts when the file is the same at the next look."""


def watch_file(filter: Any, path: str | Path, used: tuple | None) -> None:
    """Starts a thread that ends with the filter. A file that cannot be used is logged, and the policy stays.

    `used` is the state of the file before the filter loaded it.
    """
    thread = threading.Thread(target=_watch, args=(weakref.ref(filter), Path(path), used), name="lro-watch", daemon=True)
    thread.start()


def _watch(filter: weakref.ref, path: Path, used: tuple | None) -> None:
    pause, seen = threading.Event(), used
    while not pause.wait(INTERVAL_SECONDS) and filter() is not None:
        found = file_state(path)
        is_settled, seen = found == seen, found
        if found is not None and found != used and is_settled:
            used = found
            _swap(filter, path)


def _swap(filter: weakref.ref, path: Path) -> None:
    try:
        if (watched := filter()) is not None:
            watched.swap(path)
    except LROError as error:
        log.warning("the policy stays, as the new one cannot be used: %s", error)


def file_state(path: str | Path) -> tuple | None:
    """What differs between two contents of a file, or of the signature beside it; `None` without a file."""
    found = _state(path)
    return None if found is None else (found, _state(f"{path}{SIGNATURE_SUFFIX}"))


def _state(path: str | Path) -> tuple | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
