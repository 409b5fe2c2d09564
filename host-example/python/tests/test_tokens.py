"""The estimate of tokens."""

import json
import unittest
from pathlib import Path

from lro_filter import estimate_size

VECTORS = Path(__file__).parents[3] / "tests/vectors/tokens/estimates.json"


class Tokens(unittest.TestCase):
    def test_estimates_are_those_of_the_vectors(self):
        for vector in json.loads(VECTORS.read_text()):
            self.assertEqual(estimate_size(vector["text"], "tokens"), vector["tokens"], vector["text"])


if __name__ == "__main__":
    unittest.main()
