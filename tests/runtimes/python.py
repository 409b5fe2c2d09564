"""Runs the vectors in Python: `python.py COMPONENT.wasm VECTORS_DIR INPUTS_DIR`, one JSON object on standard output.

The package `lro_filter` is the one that is installed, else the one of this repository; wasmtime must be installed.
"""

import base64
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

from lro_filter import LROError, Policy, PolicyError, load
from lro_filter.component import Part

MEASURED = "records-100000"


def part(told: dict, inputs: Path) -> Part:
    if "input" in told:
        data = (inputs / told["input"]).read_bytes()
    else:
        data = base64.b64decode(told["base64"]) if "base64" in told else told["text"].encode()
    return Part(told["kind"], data, told.get("media-type"), told.get("name"))


def check(policy: Policy, vector: dict, parts: list[Part]) -> str | None:
    """The reason why a vector fails; None when it passes."""
    try:
        verdict = policy.inspect(vector["call"], parts)
    except PolicyError as error:
        return None if "error" in vector and error.value == vector["error"] else f"error: {error}"
    if verdict != vector.get("verdict"):
        return f"verdict: {verdict}"
    if not isinstance(verdict, dict) or "offload" not in verdict:
        return None
    with tempfile.TemporaryDirectory() as directory:
        try:
            descriptor = policy.write(vector["call"], parts, verdict["offload"], directory)
        except PolicyError as error:
            if error.value is None or error.value != vector.get("write-error"):
                return f"write error: {error}"
        else:
            if descriptor != vector.get("descriptor"):
                return f"descriptor: {descriptor}"
        files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
    found = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()}
    expected = {name: (file["bytes"], file["sha256"]) for name, file in vector["files"].items()}
    return None if found == expected else f"files: {found}"


def milliseconds(policy: Policy, vector: dict, parts: list[Part]) -> float:
    """Median of five writes, after a warm-up."""
    times = []
    for _ in range(6):
        with tempfile.TemporaryDirectory() as directory:
            start = time.perf_counter()
            policy.write(vector["call"], parts, vector["verdict"]["offload"], directory)
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[1:])


def main(component: str, vectors: str, inputs: str) -> int:
    policy = load(component)
    report = {"runtime": f"Python {platform.python_version()}, wasmtime {version('wasmtime')}"}
    report |= {"component": policy.digest, "passed": 0, "failed": []}
    for path in sorted(Path(vectors).glob("*.json")):
        vector = json.loads(path.read_bytes())
        parts = [part(told, Path(inputs)) for told in vector["parts"]]
        try:
            reason = check(policy, vector, parts)
            if path.stem == MEASURED and reason is None:
                report["milliseconds"] = round(milliseconds(policy, vector, parts), 1)
        except (LROError, KeyError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        report["passed"] += reason is None
        report["failed"] += [] if reason is None else [{"vector": path.stem, "reason": reason[:1000]}]
    # In KiB on Linux.
    report["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(report))
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
