"""Runs each example of docs/cli.md and compares its output with the page.

Times and properties of the machine may differ. A block is not compared if a comment precedes it:

    <!-- not compared: REASON -->

With SERVAL_WRITE_DOCS set, writes outputs that differ into the page. JSON that the page spreads out becomes one line.
"""

import json
import math
import os
import re
import subprocess
import tempfile
import unittest

import program_file
from harness import PATIENCE, PROGRAM, environment, run

DOCS = os.path.join(os.path.dirname(__file__), "../../docs/cli.md")
BLOCK = re.compile(r"^(?:<!-- not compared: (?P<reason>[^\n]+) -->\n)?```console\n(?P<text>.*?)^```$", re.M | re.S)
ANY_LINES = "…"  # stands for the rest of an output

# Figures that differ between runs or machines.
VARYING = [
    (r"(this machine's first|that with the least free memory)$", "an H200"),
    (r"\d+(\.\d+)? ms", "N ms"),
    (r"\d+(\.\d+)? tokens/s", "N tokens/s"),
    (r"\d+\.\d+ ± \d+\.\d+ \| \d+\.\d+ \|$", "N |"),  # bench: tokens a second
    (r"^(\| serval-stories \|.*\| host) \| \d+ \|", r"\1 | N |"),  # bench: threads
    (r"^(  (compiler|backends|system|cpu|threads|memory_bytes|kv_tokens_that_fit|directory) +)\S.*$", r"\1X"),  # info
]
TIMES = re.compile(r".*(_ms|_per_second)$")
MOST_OFF = 1e-4  # allowed difference of log-probabilities: exp() differs in its last bit between C libraries

# Shortens commands without a change of their output's format.
SHORTER = {"SERVAL_REPETITIONS": "1"}


def examples():
    """Yields (command, expected output, whether to compare it) in the order of the page."""
    with open(DOCS, encoding="utf-8") as file:
        page = file.read()
    for block in BLOCK.finditer(page):
        for example in re.split(r"^\$ ", block["text"], flags=re.M)[1:]:
            command, _, output = example.partition("\n")
            yield command, output, block["reason"] is None


def shell(command, directory):
    """Returns stdout and stderr as a terminal would show them."""
    env = environment({**SHORTER, "PATH": f"{directory}/bin:{os.environ['PATH']}"})
    if "--backend" in command:
        del env["SERVAL_BACKEND"]
    process = subprocess.run(
        ["bash", "-c", f"{{ {command}\n}} 2>&1"], cwd=directory, env=env, stdout=subprocess.PIPE, timeout=PATIENCE, check=False
    )
    return process.stdout.decode()


def without_figures(text):
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text, flags=re.M)
    return text


def same_json(found, expected):
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(
            TIMES.match(key) or same_json(found[key], expected[key]) for key in expected
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same_json, found, expected))
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, abs_tol=MOST_OFF)
    return found == expected


def agrees(found, expected):
    if expected.startswith("{"):
        return same_json(json.loads(found), json.loads(expected))
    found, expected = without_figures(found), without_figures(expected)
    if expected.endswith(ANY_LINES + "\n"):
        return found.startswith(expected[: -len(ANY_LINES + "\n")])
    return found == expected


def with_figures_of(expected, found):
    """Returns `found`, with the page's lines in place of those that differ only in figures."""
    kept = {without_figures(line): line for line in expected.splitlines(keepends=True)}
    return "".join(kept.get(without_figures(line), line) for line in found.splitlines(keepends=True))


def rewrite(stale):
    with open(DOCS, encoding="utf-8") as file:
        page = file.read()
    for old, new in stale.items():
        page = page.replace(old, new, 1)
    with open(DOCS, "w", encoding="utf-8") as file:
        file.write(page)


class Examples(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="serval-docs-")
        cls.addClassCleanup(holder.cleanup)
        cls.directory = holder.name
        os.mkdir(os.path.join(cls.directory, "bin"))
        os.symlink(os.path.abspath(PROGRAM), os.path.join(cls.directory, "bin/serval"))
        broken = os.path.join(cls.directory, "broken.program")
        run("schedule", "--sms", "2", "-o", broken)
        program_file.lower_a_threshold(broken)

    def test_every_example_prints_what_the_page_shows(self):
        stale = {}
        for command, expected, compared in examples():
            if not compared:
                continue
            with self.subTest(command=command):
                found = shell(command, self.directory)
                if agrees(found, expected):
                    continue
                stale[f"$ {command}\n{expected}"] = f"$ {command}\n{with_figures_of(expected, found)}"
                self.assertEqual(without_figures(found), without_figures(expected))
        if stale and "SERVAL_WRITE_DOCS" in os.environ:
            rewrite(stale)

    def test_most_examples_are_compared(self):
        compared = [compared for _, _, compared in examples()]
        self.assertGreater(len(compared), 15)
        self.assertGreater(sum(compared), 0.8 * len(compared))

    def test_only_figures_may_differ(self):
        self.assertTrue(agrees("load 1.5 ms\n", "load 32.4 ms\n"))
        self.assertFalse(agrees("loaded 1.5 ms\n", "load 32.4 ms\n"))
        self.assertFalse(agrees("isa 12\n", "isa 13\n"))
        self.assertTrue(agrees("a\nb\nc\n", "a\n…\n"))
        self.assertFalse(agrees("b\nc\n", "a\n…\n"))
        self.assertTrue(agrees('{"x_ms": 1, "p": [-1.00001]}', '{"x_ms": 2.5, "p": [-1.0]}'))
        self.assertFalse(agrees('{"x_ms": 1, "p": [-1.1]}', '{"x_ms": 2.5, "p": [-1.0]}'))
        self.assertFalse(agrees('{"tokens": [1]}', '{"tokens": [2]}'))


if __name__ == "__main__":
    unittest.main()
