"""The shared vectors of replies: the bytes of the Rust host."""

import hashlib
import json
import tempfile
import unittest
from pathlib import Path

from lro_filter import Limits, load

from support import POLICY, REPOSITORY

REQUEST = {
    "id": "01M8490HTVFQBCBZEZZHXGSEJT", "tenant": "tests", "session": "s 1", "tool": "list items", "query": '{"q":"x"}',
    "shown-path": "/offloads", "abilities": ["shell"],
}  # fmt: skip


class Replies(unittest.TestCase):
    def test_replies_are_those_of_the_vectors(self):
        policy, cases = load(POLICY), 0
        for path in sorted((REPOSITORY / "tests/vectors/replies").glob("*.json")):
            vector = json.loads(path.read_text())
            for case in vector["cases"]:
                shown = (path.stem, case["settings"])
                with tempfile.TemporaryDirectory() as directory:
                    request = REQUEST | {"settings": json.dumps(case["settings"])}
                    reply = policy.filter(request, vector["result"], Path(directory), Limits())
                    files = {file.name: file.read_bytes() for file in Path(directory).iterdir()}
                self.assertEqual((reply["outcome"], reply.get("tool-result")), (case["outcome"], case["reply"]), shown)
                digests = {name: [len(data), hashlib.sha256(data).hexdigest()] for name, data in files.items()}
                self.assertEqual(digests, {name: [*file.values()] for name, file in case["files"].items()}, shown)
                cases += 1
        self.assertEqual(cases, 50)


if __name__ == "__main__":
    unittest.main()
