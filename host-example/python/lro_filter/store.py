"""The store of offloads: `{root}/{tenant}/{ULID}/`, published by one rename.

The layout is that of the lro-filter host, which may use the same root. Directories have mode 0700 and files 0600,
whatever the umask. Each process holds a lock on a file in `{root}/.owners/`, and its unpublished directories
carry the name of that file, so that a sweep recognizes the leftovers of a dead process.
"""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from . import ulid
from .errors import StoreError

__all__ = ["Store", "safe_name"]

log = logging.getLogger("lro_filter")

TIME_TO_LIVE = ".ttl-seconds"
"""File of an offload with its own time to live, which the host writes for some tools: seconds in decimal digits."""
CURSOR_KEY = ".cursor-key"
CURSOR_KEY_BYTES = 32
TENANT_NAME_BYTES_MAX = 64
SWEEP_SECONDS = 60
"""Least time between two sweeps of a process."""
SYNCS_AT_ONCE = 4


class Store:
    """The offloads of one tenant under one root.

    Raises:
        StoreError: The root cannot be created, belongs to another user, or others can write to it.
    """

    def __init__(self, root: Path, tenant: str, ttl_seconds: int, fsync: str, file_max: int, tenant_max: int):
        self.tenant, self.ttl_seconds, self.fsync = tenant, ttl_seconds, fsync
        self._behind = ThreadPoolExecutor(1, "lro-sync")
        self.file_max, self.tenant_max = file_max, tenant_max
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root = root.resolve()
            found = self.root.stat()
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise StoreError(f"{self.root} belongs to another user, or others can write to it")
            self._parent = self.root / safe_name(tenant, TENANT_NAME_BYTES_MAX)
            self._owners = self.root / ".owners"
            for directory in (self._parent, self._owners):
                directory.mkdir(mode=0o700, exist_ok=True)
            self._owner, self._lock = self._make_owner()
        except OSError as error:
            raise StoreError(f"cannot use {root}: {error}") from error
        self._room = threading.Lock()
        self._swept = 0.0

    def shown_path(self, id: str) -> str:
        """Absolute path of an offload."""
        return str(self._parent / id)

    def find(self, id: str) -> tuple[Path, float] | None:
        """The directory of an offload, and when it expires, in seconds since 1970; `None` if it is not there."""
        path = self._parent / id
        if not ulid.is_ulid(id) or path.is_symlink() or not path.is_dir():
            return None
        return path, ulid.seconds(id) + self._time_to_live(path)

    def cursor_key(self) -> bytes:
        """The key of 32 bytes that signs cursors; all processes that use the root share it.

        Raises:
            StoreError: It can be neither read nor created, or others have access to it.
        """
        path = self.root / CURSOR_KEY
        try:
            if not path.exists():
                # It appears with all its bytes, and another process may be as far.
                made = self.root / f".new-{ulid.generate()}.tmp"
                made.touch(mode=0o600, exist_ok=False)
                made.write_bytes(os.urandom(CURSOR_KEY_BYTES))
                with suppress(FileExistsError):
                    os.link(made, path)
                made.unlink()
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                mode, key = os.fstat(file.fileno()).st_mode, file.read(CURSOR_KEY_BYTES + 1)
        except OSError as error:
            raise StoreError(f"cannot use {path}: {error.strerror or error}") from error
        if mode & 0o077 or len(key) != CURSOR_KEY_BYTES:
            raise StoreError(f"{path}: others have access to it, or it has not {CURSOR_KEY_BYTES} bytes")
        return key

    @contextmanager
    def staging(self, id: str):
        """A private, empty directory; removed at the end unless published."""
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            # The next sweep removes what this one cannot.
            with suppress(OSError):
                self.sweep()
        path = self._parent / f".staging-{self._owner}-{id}"
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            raise StoreError(f"cannot write to {self._parent}: {error}") from error
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def publish(self, path: Path, id: str, files: list[dict]) -> None:
        """Makes room, and renames a staging directory with these files to its final name.

        Raises:
            StoreError: A quota is exceeded, or writing fails.
        """
        for file in files:
            if file["bytes"] > self.file_max:
                raise StoreError(f"{file['name']} is larger than quota_file, {self.file_max} bytes")
        try:
            self._make_room(sum(file["bytes"] for file in files))
            names = [path / file["name"] for file in files]
            for name in names:
                name.chmod(0o600)
            if self.fsync == "before":
                self._synchronize(path, names)
            published = path.rename(self._parent / id)
            if self.fsync == "before":
                _sync(self._parent)
            elif self.fsync == "after":
                self._behind.submit(self._synchronize_behind, published, [published / name.name for name in names])
        except OSError as error:
            raise StoreError(f"cannot write the offload {id}: {error.strerror or error}") from error

    def _synchronize(self, path: Path, names: list[Path]) -> None:
        with ThreadPoolExecutor(SYNCS_AT_ONCE) as threads:
            list(threads.map(_sync, names))
        _sync(path)

    def _synchronize_behind(self, path: Path, names: list[Path]) -> None:
        try:
            self._synchronize(path, names)
            _sync(self._parent)
        except FileNotFoundError:
            # It was removed.
            pass
        except OSError as error:
            log.warning("the offload %s may be lost if the power fails: %s", path.name, error.strerror or error)

    def sweep(self, now: float | None = None) -> int:
        """Removes offloads expired at `now` (seconds since 1970) and those of dead processes. Returns their number."""
        now = time.time() if now is None else now
        removed = 0
        for parent in [path for path in self.root.iterdir() if path.is_dir() and not path.name.startswith(".")]:
            for path in parent.iterdir():
                if self._is_over(path, now) and not path.is_symlink() and path.is_dir():
                    removed += self._remove(path)
        for path in self._owners.iterdir():
            if ulid.is_ulid(path.name) and self._is_dead(path.name):
                path.unlink(missing_ok=True)
        return removed

    def close(self) -> None:
        """Waits for what is synchronized behind answers, removes the owner file and releases its lock."""
        self._behind.shutdown()
        (self._owners / self._owner).unlink(missing_ok=True)
        os.close(self._lock)

    def _make_owner(self) -> tuple[str, int]:
        while True:
            owner = ulid.generate()
            path = self._owners / owner
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Before the lock, a sweep may have removed the file as that of a dead process.
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(lock).st_ino:
                    return owner, lock
            os.close(lock)

    def _is_dead(self, owner: str) -> bool:
        try:
            lock = os.open(self._owners / owner, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(lock)

    def _is_over(self, path: Path, now: float) -> bool:
        name = path.name
        if ulid.is_ulid(name):
            return ulid.seconds(name) + self._time_to_live(path) <= now
        kind, _, rest = name.removeprefix(".").partition("-")
        owner, _, id = rest.rpartition("-")
        if not name.startswith(".") or not ulid.is_ulid(id):
            return False
        return kind == "removing" if not owner else kind == "staging" and ulid.is_ulid(owner) and self._is_dead(owner)

    def _time_to_live(self, path: Path) -> int:
        """The time to live of an offload, which may have its own."""
        try:
            text = (path / TIME_TO_LIVE).read_text("ascii").strip()
        except (OSError, ValueError):
            return self.ttl_seconds
        return int(text) if text.isdecimal() else self.ttl_seconds

    def _remove(self, path: Path) -> bool:
        if ulid.is_ulid(path.name):
            # A reader finds all of the offload or nothing.
            with suppress(OSError):
                path = path.rename(path.with_name(f".removing-{path.name}"))
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()

    def _make_room(self, needed: int) -> None:
        if needed > self.tenant_max:
            raise StoreError(f"{needed} bytes exceed quota_tenant, {self.tenant_max} bytes")
        with self._room:
            sizes = {path: _bytes(path) for path in self._parent.iterdir() if ulid.is_ulid(path.name)}
            held = sum(sizes.values())
            for path in sorted(sizes):
                if held + needed <= self.tenant_max:
                    break
                held -= sizes[path]
                self._remove(path)


def _bytes(path: Path) -> int:
    try:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(path))
    except OSError:
        # Another process removed it.
        return 0


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def safe_name(text: str, bytes_max: int) -> str:
    """A directory name for any text: distinct texts have distinct names."""
    is_changed = re.fullmatch(r".*-[0-9a-f]{8}", text, re.DOTALL) is not None
    if text and text != "none" and not is_changed and re.fullmatch(f"[A-Za-z0-9_-]{{1,{bytes_max}}}", text):
        return text
    if not text:
        return "none"
    kept = re.sub("[^A-Za-z0-9_-]", "_", text)[: bytes_max - 9]
    return f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
