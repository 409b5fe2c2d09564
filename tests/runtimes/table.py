"""One component in every runtime: `table.py TARGET_DIR` prints a row per runtime.

Each runner gets the same component and the same inputs, one runner after another. Runners that call the policy get the vectors of
its calls, those of the default and of the redacting policy; runners with a composed component get the vectors of replies. A row
shows which component ran, how many vectors it gave byte for byte, how long a whole call with 100,000 records took (median of 5), from
the JSON of the result to the reply and the files without `fsync`, that time beside the Rust host's, and the most memory the process
held; then what became of calls while policies were swapped (lost, failed, and with files of two policies), after what time a policy
that loops was ended, and whether the runtime's own tools read back what it offloaded. A runtime that is not
there, or gives other bytes, is a failure, and so is the exit code; the time asked for is shown and does not fail.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNERS = ROOT / "tests/runtimes"
VECTORS = ROOT / "tests/vectors"

# The most time of a runtime, as a multiple of the Rust host's.
ASKED = {"composed": 1.3, "python": 2, "node": 1.5}

# Why a runtime has no figure.
ABSENT = {
    ("rust, other builds", "swap, loop, read back"): "the host is that of the first row",
    ("composed", "swap"): "a component alone has no policy to swap: who embeds it loads another one",
    ("composed", "looped"): "a component alone bounds no time: who embeds it does, by epoch or fuel",
    ("composed", "read back"): "by the component that reads, which tests/composed compares with the Rust host",
    ("edge", "swap"): "nothing can be compiled at run time at the edge: another policy is another worker",
    ("edge", "read back"): "the row is the composed component alone; the tests of the worker ask about offloads with clients",
}

# Runners with a composed component.
COMPOSED = ("composed", "python", "node", "edge")


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: table.py TARGET_DIR", file=sys.stderr)
        return 2
    target = Path(sys.argv[1]).resolve()
    built = target / "wasm32-unknown-unknown/component"
    rust = [target / "release/vectors"]
    python = [target / "test-data/venv-runtimes/bin/python", RUNNERS / "python.py"]
    rows = [
        Row("rust", rust, built),
        Row("rust", rust, target / "wasm32-wasip1/component", "by cargo component, wasm32-wasip1"),
        Row("rust", rust, target / "wasm32-wasip2/component", "by cargo, wasm32-wasip2"),
        Row("composed", [target / "release/examples/composed"], built),
        Row("python", python, built),
        Row("node", ["node", RUNNERS / "node.mjs"], built),
        Row("edge", ["node", RUNNERS / "edge.mjs"], built),
    ]
    for row in rows:
        print(f"running {row.name}", file=sys.stderr)
        row.run(target / "vectors")
    print_table(rows, rows[0].milliseconds)
    for (kind, what), reason in ABSENT.items():
        print(f"-  {kind}, {what}: {reason}")
    failures = [failure for row in rows for failure in row.failures]
    try:
        print(of_the_command(target / "test-data/wasmtime", built / "lro_policy.wasm"))
    except OSError as error:
        failures.append(f"wasmtime command: {error}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


class Row:
    """A runtime with its components."""

    def __init__(self, kind: str, runner: list, components: Path, built: str = "") -> None:
        self.kind, self.runner, self.components = kind, [str(word) for word in runner], components
        self.name = f"{kind} ({built})" if built else kind
        self.built = built
        self.runtime, self.digest, self.passed, self.failures = self.name, "", 0, []
        self.total = 0
        self.milliseconds = self.peak_bytes = None
        self.more = {}

    def run(self, inputs: Path) -> None:
        if self.kind in COMPOSED:
            self.runs("lro_policy.wasm", VECTORS / "replies", inputs)
            return
        self.runs("lro_policy.wasm", VECTORS, inputs)
        self.runs("lro_redact.wasm", VECTORS / "redact", inputs)

    def runs(self, name: str, vectors: Path, inputs: Path) -> None:
        component = self.components / name
        expected = len(list(vectors.glob("*.json")))
        try:
            digest = hashlib.sha256(component.read_bytes()).hexdigest()
            done = subprocess.run([*self.runner, component, vectors, inputs], capture_output=True, text=True, timeout=600)
            report = json.loads(done.stdout)
        except OSError as error:
            self.failures.append(f"{self.name}: {error}")
            return
        except (json.JSONDecodeError, subprocess.TimeoutExpired) as error:
            told = done.stderr.strip()[-2000:] if isinstance(error, json.JSONDecodeError) else error
            self.failures.append(f"{self.name}, {name}: no report: {told}")
            return
        self.runtime = f"{report['runtime']}{', ' if self.built else ''}{self.built}"
        self.passed += report["passed"]
        self.total += expected
        for failed in report["failed"]:
            self.failures.append(f"{self.name}, {name}, vector {failed['vector']}: {failed['reason'][:500]}")
        if report["component"] != digest or report["passed"] + len(report["failed"]) != expected:
            self.failures.append(f"{self.name}, {name}: the report is not about this component and its {expected} vectors")
        if report.get("milliseconds") is not None:
            whole = report.get("whole_milliseconds", report["milliseconds"])
            self.digest, self.milliseconds, self.peak_bytes = digest, whole, report["peak_bytes"]
            self.more = {name: report[name] for name in ("swap", "looped_milliseconds", "read_back") if name in report}
            self.check_more()

    def check_more(self) -> None:
        """What is not as it should be of what was measured besides."""
        swap = self.more.get("swap", {})
        if any(swap.get(name) for name in ("lost", "failed", "mixed")):
            self.failures.append(f"{self.name}: swapped under load: {swap}")
        if self.more.get("read_back") is False:
            self.failures.append(f"{self.name}: what was offloaded is not read back")

    def shown(self) -> tuple[str, str, str]:
        """What was measured besides: swap, loop, read back."""
        swap, looped = self.more.get("swap"), self.more.get("looped_milliseconds")
        return (
            f"{swap['lost']} / {swap['failed']} / {swap['mixed']} of {swap['calls']}" if swap else "-",
            f"{looped:.0f} ms" if looped is not None else "-",
            "yes" if self.more.get("read_back") else "-",
        )


def of_the_command(command: Path, component: Path) -> str:
    """What the command of wasmtime alone makes of the component: it has no `tool-result` to give, and no way to write one."""
    version = subprocess.run([command, "--version"], capture_output=True, text=True).stdout.split("(")[0].strip()
    refusal = subprocess.run([command, "run", component], capture_output=True, text=True).stderr
    reason = next((line for line in refusal.splitlines() if "lro:filter/types" in line), refusal[:200])
    return f"{version}, the command alone: {reason.strip().removeprefix('0: ')}"


def print_table(rows: list[Row], baseline: float | None) -> None:
    heading = ("runtime", "component", "vectors", "100,000 records", "of the Rust host", "memory")
    lines = [(*heading, "swap: lost / failed / mixed", "loop ended after", "read back")]
    for row in rows:
        measured = row.milliseconds is not None and baseline is not None
        asked = f" (asked: {ASKED[row.kind]})" if row.kind in ASKED else ""
        lines.append((
            row.runtime,
            row.digest[:12],
            f"{row.passed}/{row.total}",
            f"{row.milliseconds:.0f} ms" if measured else "",
            f"{row.milliseconds / baseline:.1f} x{asked}" if measured else "",
            f"{row.peak_bytes / 2**20:.0f} MiB" if row.peak_bytes else "",
            *row.shown(),
        ))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
