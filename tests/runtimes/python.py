"""Runs the vectors of replies in Python: `python.py COMPONENT.wasm VECTORS_DIR INPUTS_DIR`, one JSON object on standard output.

The package `lro_filter` is the one that is installed, else the one of this repository; wasmtime must be installed.
"""

import hashlib
import json
import platform
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "host-example" / "python"))

from lro_filter import Limits, LROError, LROOffloader, Policy, Rejected, load
from lro_filter.component import Message
from lro_filter.reader import Reader

MEASURED = "records-100000"
SWAPS = 8
CALLERS = 4
ITEMS = {"items": [{"id": n, "secret": f"word {n}"} for n in range(2000)]}

# As in `tests/composed`.
REQUEST = {
    "id": "01M8490HTVFQBCBZEZZHXGSEJT",
    "tenant": "tests",
    "session": "s 1",
    "tool": "list items",
    "query": '{"q":"x"}',
    "shown-path": "/offloads",
    "abilities": ["shell"],
}


def filtered(policy: Policy, settings: dict, result: str) -> tuple[dict, dict]:
    """The reply, and size and digest of each file."""
    with tempfile.TemporaryDirectory() as directory:
        request = REQUEST | {"settings": json.dumps(settings)}
        reply = policy.filter(request, result, Path(directory), Limits())
        files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
    return reply, {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}


def check(policy: Policy, vector: dict) -> str | None:
    """The reason why a vector fails; None when it passes."""
    for case in vector["cases"]:
        reply, files = filtered(policy, case["settings"], vector["result"])
        found = {"outcome": reply["outcome"], "reply": reply.get("tool-result"), "files": files}
        for name, value in found.items():
            if value != case[name]:
                return f"{json.dumps(case['settings'])}: {name}: {str(value)[:500]}"
    return None


def milliseconds(policy: Policy, records: Path) -> float:
    """Median of five results of 100,000 records, after a warm-up."""
    # As FastMCP's results are made JSON: in UTF-8.
    result = Message(b'{"content":[],"structuredContent":%b}' % records.read_bytes())
    times = []
    for _ in range(6):
        with tempfile.TemporaryDirectory() as directory:
            start = time.perf_counter()
            policy.filter(REQUEST | {"settings": "{}"}, result, Path(directory), Limits())
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[1:])


def swapped(plain: Path, redact: Path, root: Path) -> dict:
    """What became of calls while two policies took the place of each other, of which one replaces secrets."""
    custom = json.dumps({"fields": ["secret"]})
    offloader = LROOffloader(output_dir=root, component=plain, custom=custom, mode="always", failure="closed", fsync="never")
    found, is_over = [], []

    def call() -> None:
        """What stands in the place of the secrets of a call; nothing if it failed."""
        try:
            with open(offloader.offload_if_needed(ITEMS)["files"]["items"]) as file:
                found.append({json.loads(line)["secret"].split(" ")[0] for line in list(file)[1:]})
        except LROError:
            found.append(set())

    def caller() -> None:
        while not is_over:
            call()

    with ThreadPoolExecutor(CALLERS) as pool:
        callers = [pool.submit(caller) for _ in range(CALLERS)]
        try:
            for number in range(SWAPS):
                offloader.swap(plain if number % 2 else redact)
                call()
        finally:
            is_over.append(True)
        for ended in callers:
            ended.result()
    published = len([path for path in (root / "default").iterdir() if not path.name.startswith(".")])
    failed = len([words for words in found if not words])
    mixed = len([words for words in found if len(words) > 1])
    return {"calls": len(found), "lost": abs(len(found) - published - failed), "failed": failed, "mixed": mixed}


def looped(hostile: Path, root: Path) -> float:
    """Milliseconds until a policy that loops has ended, with a limit of a second."""
    limits = {"wall_time_ms": 1000}
    offloader = LROOffloader(
        output_dir=root, component=hostile, custom="inspect-loop", mode="always", failure="closed", limits=limits
    )
    start = time.perf_counter()
    try:
        offloader.offload_if_needed(ITEMS)
    except Rejected:
        return (time.perf_counter() - start) * 1000
    raise AssertionError("a policy that loops answered")


def is_read_back(root: Path) -> bool:
    """Whether the tools of the package count the records of an offload."""
    offloader = LROOffloader(output_dir=root, mode="always", fsync="never", abilities=("extract-tool",))
    handle = offloader.offload_if_needed(ITEMS)["handle"]
    question = json.dumps({"handle": handle, "where": "id >= 500", "count": True})
    answer = Reader(Limits()).call(offloader._filter.store, "lro_extract", question)
    return answer.get("structuredContent", {}).get("results") == [{"count": 1500}]


def main(component: str, vectors: str, inputs: str) -> int:
    policy = load(Path(component))
    report = {"runtime": f"Python {platform.python_version()}, wasmtime {version('wasmtime')}"}
    report |= {"component": policy.digest, "passed": 0, "failed": []}
    for path in sorted(Path(vectors).glob("*.json")):
        try:
            reason = check(policy, json.loads(path.read_bytes()))
        except (LROError, KeyError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        report["passed"] += reason is None
        report["failed"] += [] if reason is None else [{"vector": path.stem, "reason": reason[:1000]}]
    records = Path(inputs) / f"{MEASURED}.json"
    if records.exists():
        report["milliseconds"] = round(milliseconds(policy, records), 1)
    # In KiB on Linux.
    report["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    hostile, redact = (Path(component).with_name(f"lro_{name}.wasm") for name in ("test_policies", "redact"))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        report["swap"] = swapped(Path(component), redact, root / "swapped")
        report["looped_milliseconds"] = looped(hostile, root / "looped")
        report["read_back"] = is_read_back(root / "read")
    print(json.dumps(report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
