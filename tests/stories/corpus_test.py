"""Tests of tools/stories: a seed gives the same corpus on every machine, and no template mark remains in it."""

import hashlib
import json
import re
import sys
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "stories"
sys.path.insert(0, str(FOLDER))

import make_corpus
import plots

DOCUMENTS = 600
# SHA-256 of the first 600 documents of seed 1. It changes with the texts and the order of random numbers. Update it only if
# the corpus is meant to change.
CORPUS = "4665e1cbdf7863cab2ab97c72f96e61fac60dfbb94fc070e25b7c8fc5843ff80"


class Corpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = [json.dumps(make_corpus.document(1, index)) for index in range(DOCUMENTS)]

    def test_a_seed_gives_the_same_corpus(self):
        self.assertEqual(hashlib.sha256("\n".join(self.lines).encode()).hexdigest(), CORPUS)

    def test_no_mark_of_a_template_is_left(self):
        for line in self.lines:
            document = json.loads(line)
            for text in [document["text"]] if "text" in document else [m["content"] for m in document["messages"]]:
                self.assertIsNone(re.search(r"[\[\]{}<>|“”]", text), text)

    def test_every_plot_is_told(self):
        self.assertEqual({path.stem for path in (FOLDER / "data" / "plots").glob("*.json")}, set(plots.WEIGHTS))


if __name__ == "__main__":
    unittest.main()
