"""Shared by the tests: components, directories, and the reassembly of a value from its files."""

import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from lro_filter.component import DEFAULT_COMPONENT

REPOSITORY = Path(__file__).parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
COMPONENTS = TARGET / "wasm32-unknown-unknown" / "component"
POLICY = DEFAULT_COMPONENT if DEFAULT_COMPONENT.exists() else COMPONENTS / "lro_policy.wasm"
HOSTILE = COMPONENTS / "lro_test_policies.wasm"
REDACT = COMPONENTS / "lro_redact.wasm"
LRO = TARGET / "release" / "lro"

RESERVED = {
    "offloaded", "handle", "files", "more_files", "inline", "summary", "schemas", "samples", "recipes",
    "jq_recipes", "guidance", "file_path", "line_schema", "integrity", "warning",
}  # fmt: skip


class Case(unittest.TestCase):
    """A test with a temporary directory."""

    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def need(self, path):
        """Skips the test with a reason when a component is not built."""
        if not Path(path).exists():
            self.skipTest(f"{path} is absent: `make build component` and the tests of the repository build it")
        return path

    def manifests(self):
        """The manifests of all offloads under the root."""
        return [json.loads(path.read_text()) for path in sorted(self.root.rglob("manifest.json"))]


def rows(count):
    """Records of one shape."""
    return [{"id": n, "name": f"name {n}", "score": n / 2, "owner": {"name": f"ö{n % 7}"}} for n in range(count)]


def exact(text):
    """A JSON value that keeps numbers as written."""
    return json.loads(text, parse_int=lambda digits: f"int {digits}", parse_float=lambda digits: f"float {digits}")


def rebuilt(directory, descriptor):
    """The offloaded structured content, reassembled from the descriptor and the files of its manifest."""
    tree = {}
    shown = exact(descriptor)
    inline = {key: value for key, value in shown.items() if key not in RESERVED} | shown.get("inline", {})
    for key, value in inline.items():
        # Members at the top are named by their keys, deeper ones by their pointers.
        is_pointer = key.startswith("/") and key.count("/") > 1
        put(tree, key if is_pointer else "/" + key.replace("~", "~0").replace("/", "~1"), value)
    for file in json.loads((Path(directory) / "manifest.json").read_text())["record"]["files"]:
        if file["origin"] != "content":
            continue
        text = (Path(directory) / file["name"]).read_bytes().decode()
        if file["kind"] == "text" and file["pointer"] is not None:
            put(tree, file["pointer"], text)
            continue
        if file["kind"] == "value":
            put(tree, file["pointer"], exact(text))
            continue
        lines = [exact(line) for line in text.split("\n")[1:-1]]
        if file["shape"] is None:
            for line in lines:
                put(tree, line["pointer"], line["value"])
        else:
            members = {line["key"]: line["value"] for line in lines} if file["shape"] == "members" else None
            put(tree, file["pointer"] or "", lines if members is None else members)
    return arrays(tree.get("", tree))


def arrays(value):
    """The value with arrays where pointers have indices; no key of these tests is a number."""
    if isinstance(value, list):
        return [arrays(item) for item in value]
    if not isinstance(value, dict):
        return value
    items = {key: arrays(item) for key, item in value.items()}
    return [items[key] for key in sorted(items, key=int)] if items and all(map(str.isdigit, items)) else items


def put(tree, pointer, value):
    """Sets a value; the empty key, which no member of these tests has, stands for the whole value."""
    if not pointer:
        tree[""] = value
        return
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for step in steps:
        tree = tree.setdefault(step, {})
    tree[last] = value
