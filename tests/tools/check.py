"""Checks a published offload against the input it was made from.

    check.py lossless DIRECTORY INPUT    every value of the input is in the files or the descriptor, once, unchanged
    check.py schema DIRECTORY            the lines validate against the schemas of the manifest
    check.py summary DIRECTORY           the descriptor's summaries equal a computation over the lines

DIRECTORY is that of the offload, INPUT the only part of the result. Prints one JSON object with what was counted; anything
wrong ends the program with status 3 and one line that says what and where.

Values are compared as they were written: numbers as their text, so that 1.0 is not 1 and no digit of a large integer is
lost; objects as lists of pairs, so that order and repeated keys count. Only the standard library's parser is used.
"""

import base64
import hashlib
import json
import random
import re
import struct
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

# Names reserved by the descriptor, never of data.
RESERVED = {
    "offloaded", "handle", "files", "more_files", "inline", "summary", "schemas", "samples", "recipes", "jq_recipes",
    "guidance", "file_path", "line_schema", "integrity", "warning",
}
HEADER = {
    "type", "operation", "section", "pointer", "shape", "count", "estimated_tokens", "query", "schema_version",
    "timestamp", "detail",
}
# Exit status of a finding, distinct from a crash of this program (1) and wrong arguments (2).
FOUND = 3
# Number of first lines, and of others chosen with a fixed seed, on which the schema of a large file is checked.
SCHEMA_FIRST, SCHEMA_SAMPLE = 20_000, 2_000
# Bytes of a file between two index entries.
INDEX_STEP = 64 * 1024


class Wrong(Exception):
    """A finding: an error in the offload."""


class Number(str):
    """A number as written."""

    __slots__ = ()


class Object(tuple):
    """The members of an object: pairs of key and value in order."""

    __slots__ = ()


def exact(text):
    def constant(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(
        text, parse_float=Number, parse_int=Number, object_pairs_hook=Object, parse_constant=constant
    )


def same(left, right):
    """Whether two values are equal, type for type: a number is not a string, an object not a list."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Object):
        return len(left) == len(right) and all(
            a[0] == b[0] and same(a[1], b[1]) for a, b in zip(left, right)
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def require(condition, text):
    if not condition:
        raise Wrong(text)


def index(data, start):
    """For every 64 KiB of a file: number and offset of the first line that begins there or later."""
    starts = [start] + [feed.end() for feed in re.compile(b"\n").finditer(data, start)]
    if starts[-1] == len(data):
        starts.pop()
    entries, number = [], 0
    for point in range(0, len(data), INDEX_STEP):
        while number < len(starts) and starts[number] < point:
            number += 1
        entries.append(struct.pack("<QQ", number, starts[number] if number < len(starts) else len(data)))
    return b"".join(entries)


class Offload:
    """A published directory: its manifest, its descriptor, and its files, with integrity checks."""

    def __init__(self, directory):
        self.directory = Path(directory)
        text = (self.directory / "manifest.json").read_bytes().decode("utf-8")
        record = json.loads(text)["record"]
        self.files, self.tool = record["files"], record["tool"]
        self.descriptor = dict(dict(exact(text))["record"])["descriptor"]
        names = {file["name"] for file in self.files} | {"manifest.json"}
        names |= {f".{file['name']}.index" for file in self.files if file["index"]}
        require(names == {path.name for path in self.directory.iterdir()}, "the files are not those of the manifest")
        for file in self.files:
            self.check_integrity(file)

    def check_integrity(self, file):
        data = (self.directory / file["name"]).read_bytes()
        require(len(data) == file["bytes"], f"{file['name']}: {len(data)} bytes, {file['bytes']} in the manifest")
        start = data.index(b"\n") + 1 if file["kind"] == "records" else 0
        require(file["digest_from"] == start, f"{file['name']}: digest from {file['digest_from']}, not {start}")
        digest = hashlib.sha256(data[start:]).hexdigest()
        require(digest == file["sha256"], f"{file['name']}: SHA-256 differs from the manifest")
        wanted = index(data, start) if file["kind"] in ("records", "text") and len(data) > INDEX_STEP else None
        require((wanted is None) == (file["index"] is None), f"{file['name']}: index {file['index']}")
        if wanted is not None:
            found = (self.directory / f".{file['name']}.index").read_bytes()
            require(found == wanted, f"{file['name']}: the index is wrong")
            expected = {"bytes": len(found), "sha256": hashlib.sha256(found).hexdigest()}
            require(file["index"] == expected, f"{file['name']}: index {file['index']}, not {expected}")

    def lines(self, file):
        """Checks the header of a JSONL file; returns its other lines."""
        text = (self.directory / file["name"]).read_bytes().decode("utf-8")
        require(text.endswith("\n"), f"{file['name']}: the last line does not end")
        # Not splitlines, which splits at more characters than the line feed.
        header, *lines = text[:-1].split("\n")
        header = json.loads(header)
        require(set(header) == HEADER, f"{file['name']}: header {sorted(header)}")
        counts = (header["count"], file["records"], len(lines))
        require(len(set(counts)) == 1, f"{file['name']}: header, manifest and file count {counts}")
        require(header["operation"] == self.tool, f"{file['name']}: operation {header['operation']}")
        require(header["section"] == file["section"], f"{file['name']}: section {header['section']}")
        require(header["schema_version"] == "1", f"{file['name']}: schema_version {header['schema_version']}")
        require(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", header["timestamp"]), f"{file['name']}: timestamp")
        require(not lines or header["estimated_tokens"] > 0, f"{file['name']}: estimated_tokens")
        return lines

    def inline(self):
        """Name and value of each inline value."""
        members = [member for member in self.descriptor if member[0] not in RESERVED]
        for key, value in self.descriptor:
            if key == "inline":
                members.extend(value)
        return members


def lossless(directory, path):
    offload = Offload(directory)
    # Records of a text and outlines repeat what another file keeps.
    offload.files = [file for file in offload.files if file["origin"] == "content"]
    if offload.files and all(file["kind"] == "text" and file["pointer"] is None for file in offload.files):
        return lossless_text(offload, Path(path).read_bytes())
    document = exact(Path(path).read_bytes().decode("utf-8"))
    account = Account(offload)
    account.visit("", document, True)
    account.require_all_used()
    return {"files": len(offload.files), "records": account.records, "inline": account.inline_used}


def lossless_text(offload, data):
    require(len(offload.files) == 1, "a text is not one file")
    file = offload.files[0]
    require((offload.directory / file["name"]).read_bytes() == data, "the text differs")
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    require(file["records"] == lines, f"{file['records']} lines, not {lines}")
    return {"files": 1, "records": lines, "inline": 0}


class Account:
    """Finds each value of the document exactly once among the files, the inline values and the rest."""

    def __init__(self, offload):
        self.offload = offload
        self.files = {}
        self.rest = []
        for file in offload.files:
            if file["pointer"] is not None:
                self.files.setdefault(file["pointer"], []).append(file)
                continue
            for line in offload.lines(file):
                entry = exact(line)
                require([key for key, _ in entry] == ["pointer", "value"], f"{file['name']}: a line of the rest")
                self.rest.append((entry[0][1], entry[1][1]))
        for files in self.files.values():
            # Of several values of one key, the first is the text.
            files.sort(key=lambda file: file["kind"] not in ("text", "bytes"))
        self.inline = offload.inline()
        self.records = 0
        self.inline_used = 0

    def visit(self, pointer, value, root=False):
        if self.files.get(pointer):
            self.compare_file(self.files[pointer].pop(0), pointer, value)
        elif self.take(pointer, value):
            pass
        elif isinstance(value, Object) and (value or root):
            for key, member in value:
                self.visit(pointer + step(key), member)
        elif isinstance(value, list) and value:
            for index, element in enumerate(value):
                self.visit(f"{pointer}/{index}", element)
        else:
            raise Wrong(f"`{pointer}` is nowhere: {str(value)[:80]}")

    def take(self, pointer, value):
        """Uses an inline value or a line of the rest."""
        for index, (found, other) in enumerate(self.rest):
            if found == pointer and same(value, other):
                del self.rest[index]
                return True
        names = {pointer}
        if pointer.count("/") == 1:
            names.add(pointer[1:].replace("~1", "/").replace("~0", "~"))
        for index, (name, other) in enumerate(self.inline):
            # A name that was taken has a number appended.
            if (name in names or re.sub(r"-\d+$", "", name) in names) and same(value, other):
                del self.inline[index]
                self.inline_used += 1
                return True
        return False

    def take_members(self, text):
        """Uses the inline values that are small members of a document in a text, and in texts inside of it."""
        try:
            document = exact(text)
        except ValueError:
            return

        def visit(pointer, value):
            if self.take(pointer, value):
                return
            if isinstance(value, Object):
                for key, member in value:
                    visit(pointer + step(key), member)
            if isinstance(value, str):
                self.take_members(value)

        if isinstance(document, Object):
            visit("", document)

    def compare_file(self, file, pointer, value):
        if file["kind"] == "text":
            text = (self.offload.directory / file["name"]).read_bytes().decode("utf-8")
            require(value == text and isinstance(value, str), f"`{pointer}`: the text differs")
            self.take_members(text)
            return
        if file["kind"] == "bytes":
            prefix = value[: value.find(",") + 1] if value.startswith("data:") else ""
            require(not prefix or self.take(pointer, f"{prefix}…"), f"`{pointer}`: `{prefix}` is not shown")
            data = base64.b64encode((self.offload.directory / file["name"]).read_bytes()).decode()
            require(value == prefix + data, f"`{pointer}`: the bytes differ")
            return
        if file["kind"] == "value":
            text = (self.offload.directory / file["name"]).read_bytes().decode("utf-8")
            require(text.endswith("\n") and text.count("\n") == 1, f"{file['name']}: not one line")
            require(same(value, exact(text)), f"`{pointer}`: the value differs")
            return
        if isinstance(value, list):
            wanted = value
        else:
            wanted = [value]
        lines = self.offload.lines(file)
        # An object of another shape is the only record of a section.
        if isinstance(value, Object) and file["shape"] == "members":
            wanted = [Object((("key", key), ("value", member))) for key, member in value]
        require(len(lines) == len(wanted), f"`{pointer}`: {len(lines)} records, not {len(wanted)}")
        for number, (line, element) in enumerate(zip(lines, wanted)):
            require(same(element, exact(line)), f"`{pointer}`: record {number} differs: {line[:120]}")
        self.records += len(lines)

    def require_all_used(self):
        files = [file["name"] for left in self.files.values() for file in left]
        inline = [name for name, _ in self.inline]
        require(not files and not inline and not self.rest, f"not of the input: {files} {inline} {self.rest[:3]}")


def schema(directory):
    from jsonschema import Draft202012Validator

    offload, checked = Offload(directory), 0
    for file in offload.files:
        if file["kind"] != "records" or file["pointer"] is None:
            continue
        require(file["schema"] is not None, f"{file['name']}: no schema")
        Draft202012Validator.check_schema(file["schema"])
        validator = Draft202012Validator(file["schema"])
        lines = offload.lines(file)
        others = lines[SCHEMA_FIRST:]
        sample = random.Random(2026).sample(others, min(SCHEMA_SAMPLE, len(others)))
        for line in lines[:SCHEMA_FIRST] + sample:
            error = next(validator.iter_errors(json.loads(line)), None)
            require(error is None, f"{file['name']}: {error and error.message[:200]}: {line[:120]}")
            checked += 1
    return {"lines": checked}


def summary(directory):
    offload, checked = Offload(directory), 0
    descriptor = dict(offload.descriptor)
    summaries, samples = dict(descriptor["summary"]), dict(descriptor.get("samples", ()))
    for file in offload.files:
        if file["kind"] != "records" or file["section"] not in summaries:
            continue
        found = dict(summaries[file["section"]])
        for name in ("form", "base64"):
            found.pop(name, None)
        lines = offload.lines(file)
        require(found.pop("count") == str(len(lines)), f"{file['section']}: count")
        fields = {}
        for line in lines:
            gather(exact(line), [], fields)
        if file["section"] in samples:
            require(shortens(samples[file["section"]], exact(lines[0])), f"{file['section']}: the sample")
        for name, value in found.pop("constants", ()):
            values = fields.get(name, [])
            is_more = name == "…" and value == "more"
            is_same = not values if value is None else len(values) == len(lines) and all(same(value, each) for each in values)
            require(is_more or is_same, f"{file['section']}: `{name}` is not always {value}")
        for name, detail in found.items():
            # A field whose name was taken, such as `count`, has a number appended.
            values = fields.get(name, fields.get(re.sub(r"-\d+$", "", name)))
            require(values is not None, f"{file['section']}: no field `{name}`")
            compare_summary(f"{file['section']}.{name}", dict(detail), values)
            checked += len(detail)
    return {"figures": checked}


def shortens(sample, value):
    """Whether a sample is a value with strings cut, one element of each array, and some members."""
    if isinstance(sample, str) and not isinstance(sample, Number) and sample.endswith("…"):
        return sample == "…" or isinstance(value, str) and value.startswith(sample[:-1])
    if isinstance(sample, Object) and isinstance(value, Object):
        members = list(value)
        return all((name, part) == ("…", "more") or any(name == key and shortens(part, whole) for key, whole in members)
                   for name, part in sample)
    if isinstance(sample, list) and isinstance(value, list):
        return all(part == "…" or shortens(part, whole) for part, whole in zip(sample, value))
    return same(sample, value)


def gather(value, path, fields):
    """Adds the scalars of a record, except null, to those of their field; skips arrays."""
    values = fields.setdefault(spelled(path), [])
    if isinstance(value, Object):
        for key, member in value:
            gather(member, [*path, key], fields)
    elif not isinstance(value, list) and value is not None:
        values.append(value)


def spelled(path):
    """The path of a field as descriptors show it: a JSON Pointer if a key needs it."""
    if all(key and not re.search(r"[./~]|\[\]", key) for key in path):
        return ".".join(path) or "."
    return "".join(map(step, path))


def step(key):
    """A key as a step of a JSON Pointer."""
    return "/" + key.replace("~", "~0").replace("/", "~1")


def compare_summary(name, detail, values):
    numbers = [Decimal(value) for value in values if isinstance(value, Number)]
    for key, wanted in (("min", min), ("max", max)):
        if key in detail:
            require(Decimal(detail[key]) == wanted(numbers), f"{name}: {key} {detail[key]}, not {wanted(numbers)}")
    # A number is distinct from a string of the same text.
    counts = Counter((isinstance(value, Number), type(value) is bool, value) for value in values)
    if "distinct" in detail:
        require(detail["distinct"] == str(len(counts)), f"{name}: distinct {detail['distinct']}, not {len(counts)}")
    if "top" in detail:
        top = [((isinstance(value, Number), type(value) is bool, value), int(count)) for value, count in detail["top"]]
        for value, count in top:
            require(counts[value] == count, f"{name}: {value[2]} {count} times, not {counts[value]}")
        require(sorted((count for _, count in top), reverse=True) == [count for _, count in top], f"{name}: order")
        # The most frequent values that are short enough to show; numbers with a fraction are not ranked.
        ranked = [value for value in counts if not (value[0] and re.search("[.eE]", value[2]))]
        short = [value for value in ranked if len(json.dumps(value[2], ensure_ascii=False).encode()) <= 40]
        best = sorted((counts[value] for value in short), reverse=True)[: len(top)]
        require(best == [count for _, count in top], f"{name}: the most frequent are {best}")
    require(set(detail) <= {"min", "max", "top", "distinct"}, f"{name}: {sorted(detail)}")


def main(arguments):
    checks = {"lossless": (lossless, 2), "schema": (schema, 1), "summary": (summary, 1)}
    check, count = checks.get(arguments[0] if arguments else "", (None, 0))
    if check is None or len(arguments) != count + 1:
        print(__doc__, file=sys.stderr)
        return 2
    # Documents may nest deeper than Python's default recursion limit.
    sys.setrecursionlimit(20_000)
    try:
        print(json.dumps(check(*arguments[1:])))
    except Wrong as wrong:
        print(f"{arguments[0]}: {wrong}", file=sys.stderr)
        return FOUND
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
