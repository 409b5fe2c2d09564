"""Records `lro setup` with the configurations of five clients, on a terminal, in the documentation: `session.py LRO [--check]`.

With `--check` it fails where the documentation shows something else. Afterwards each configuration must have every byte again.
"""

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).parent
PAGE = TOOLS.parents[1] / "host-example/docs/how-to/clients.md"
BEGIN, END = "<!-- session: begin -->\n", "<!-- session: end -->\n"
# Each with what is typed when it asks.
COMMANDS = [("lro setup", "y\n"), ("lro setup", ""), ("lro setup --undo --yes >/dev/null", "")]
PROMPT = b"[y/N] "


def on_terminal(command: str, typed: str, environment: dict[str, str]) -> str:
    """What a terminal shows of a command, in which `typed` is typed when it asks."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(["sh", "-c", command], env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while data := read(ours):
            shown += data
            if typed and shown.endswith(PROMPT):
                os.write(ours, typed.encode())
                typed = ""
    os.close(ours)
    if process.returncode:
        sys.exit(f"`{command}` ended with {process.returncode}:\n{shown.decode()}")
    return shown.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    """The next bytes; none at the end, which Linux reports as an error."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def session(lro: Path) -> str:
    """The commands and what a terminal shows of them, as if of the user `me`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        shutil.copytree(TOOLS / "session", home, dirs_exist_ok=True)
        environment = {"HOME": str(home), "PATH": f"{lro.parent}:{os.environ['PATH']}", "TERM": "dumb"}
        shown = "".join(f"$ {command}\n{on_terminal(command, typed, environment)}" for command, typed in COMMANDS)
        for path in (TOOLS / "session").rglob("*"):
            if path.is_file() and path.read_bytes() != (home / path.relative_to(TOOLS / "session")).read_bytes():
                sys.exit(f"{path} is not byte for byte as it was, after: {COMMANDS[-1][0]}")
    return shown.replace(str(lro), "/home/me/.local/bin/lro").replace(str(home), "/home/me")


def main() -> None:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit("usage: session.py LRO [--check]")
    recorded = f"{BEGIN}```text\n{session(Path(sys.argv[1]).resolve())}```\n{END}"
    page = PAGE.read_text()
    changed = re.sub(f"{BEGIN}.*{END}", lambda _: recorded, page, flags=re.DOTALL)
    if "--check" in sys.argv and changed != page:
        sys.exit(f"{PAGE} shows another session of `lro setup`: run `make session`\n{recorded}")
    PAGE.write_text(changed)


if __name__ == "__main__":
    main()
