"""The estimate of tokens."""

import json
import unittest
from pathlib import Path

from lro_filter.sizes import measure

VECTORS = Path(__file__).parents[3] / "tests/vectors/tokens/estimates.json"


class Tokens(unittest.TestCase):
    def test_estimates_are_those_of_the_vectors(self):
        for vector in json.loads(VECTORS.read_text()):
            self.assertEqual(measure(vector["text"].encode(), "tokens"), vector["tokens"], vector["text"])


if __name__ == "__main__":
    unittest.main()
