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
from importlib.metadata import version
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "host-example" / "python"))

from lro_filter import Limits, LROError, Policy, load

MEASURED = "records-100000"

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
    result = f'{{"content":[],"structuredContent":{records.read_text()}}}'
    times = []
    for _ in range(6):
        with tempfile.TemporaryDirectory() as directory:
            start = time.perf_counter()
            policy.filter(REQUEST | {"settings": "{}"}, result, Path(directory), Limits())
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[1:])


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
    print(json.dumps(report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
