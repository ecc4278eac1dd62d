"""benchmarks/http_overhead.py counts all tokens, and its exit code depends on its limits."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import serving  # noqa: F401: adds the folder of harness to the path
from harness import PATIENCE, PROGRAM, environment

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/http_overhead.py"
THROUGHPUT = ("throughput", "--requests", "6", "--input", "9", "--output", "5", "--processes", "2")
LATENCY = ("latency", "--tokens", "4", "--depth", "9", "--repetitions", "1")


def measure(*arguments):
    """Returns (exit code, cells of the table's rows, stderr)."""
    command = [sys.executable, "-B", str(SCRIPT), *arguments[:1], "--program", os.path.abspath(PROGRAM), *arguments[1:]]
    done = subprocess.run([*command, "--", "--threads", "1"], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    table = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
    return done.returncode, table[2:], done.stderr


class HttpOverhead(unittest.TestCase):
    def test_all_tokens_of_all_requests_are_counted(self):
        code, rows, errors = measure(*THROUGHPUT)
        self.assertEqual(code, 0, msg=errors)
        counts = [(name, failed, tokens) for name, failed, tokens, *_ in rows]
        ways = ("bench", "HTTP, streams", "HTTP, whole answers")
        self.assertEqual(counts, [(way, "0", "30") for way in ways])

    def test_a_stream_is_timed_from_token_to_token(self):
        code, rows, errors = measure(*LATENCY)
        self.assertEqual(code, 0, msg=errors)
        self.assertEqual([row[0] for row in rows], ["bench", "HTTP, stream"])
        self.assertGreaterEqual(float(rows[1][1]), 0)  # 0 if all tokens arrived in one read

    def test_what_is_too_slow_ends_with_1(self):
        self.assertEqual(measure(*THROUGHPUT, "--least", "1000000")[0], 1)
        self.assertEqual(measure(*LATENCY, "--most", "-1000000")[0], 1)


if __name__ == "__main__":
    unittest.main()
