"""docs/cli.md describes every flag, and only existing flags."""

import os
import re
import unittest

from harness import run

DOCS = os.path.join(os.path.dirname(__file__), "../../docs/cli.md")
COMMANDS = ["generate", "chat", "serve", "score", "embed", "schedule", "validate", "bench", "verify", "profile", "profile diff", "info", "models", "quantize", "tokenize", "detokenize"]


class Docs(unittest.TestCase):
    def test_the_page_and_the_help_name_the_same_flags(self):
        with open(DOCS, encoding="utf-8") as file:
            page = file.read()
        helped = set()
        for command in COMMANDS:
            helped |= set(re.findall(r"(--[a-z-]+)", run(*command.split(), "--help").stdout.decode()))
        spans = re.findall(r"`([^`\n]+)`", page)
        documented = {flag for span in spans for flag in re.findall(r"--[a-z-]+", span)}
        self.assertEqual(helped - documented, {"--help"} - documented)
        self.assertEqual(documented - helped, {"--version"})


if __name__ == "__main__":
    unittest.main()
