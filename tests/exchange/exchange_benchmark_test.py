"""benchmarks/exchange: the command line, on machines without GPUs, too. Does not test speed."""

import os
import subprocess
import unittest

PROGRAM = os.environ.get("SERVAL_EXCHANGE_BENCHMARK", "build/bin/exchange_benchmark")
PATIENCE = 120  # seconds; only a hang takes longer


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


class ExchangeBenchmark(unittest.TestCase):
    def check_fails(self, code, *expected, arguments):
        """One line on stderr with these parts, nothing on stdout."""
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), msg=result.stderr)
        self.assertRegex(result.stderr, r"\Aexchange_benchmark: error: [^\n]+\n\Z")
        for part in expected:
            self.assertIn(part, result.stderr)
        return result.stderr

    def test_help_names_every_flag(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for flag in ["--gpus", "--bytes", "--repetitions", "--output-format", "--record"]:
            self.assertIn(flag, result.stdout)

    def test_needs_several_ranks(self):
        self.check_fails(2, "--gpus", "2, 4 or 8", arguments=[])
        for gpus in ["1", "3", "16", "0,1,2", "x", "0,"]:
            with self.subTest(gpus=gpus):
                self.check_fails(2, "--gpus", arguments=["--gpus", gpus])

    def test_sizes_are_whole_rows(self):
        for size in ["0", "20K", "16385", "129M", "50%", "16K,", "x", ""]:
            with self.subTest(size=size):
                self.check_fails(2, "--bytes", arguments=["--gpus", "2", "--bytes", size])
        self.check_fails(2, "'20K'", "16384 bytes, up to 8192", arguments=["--gpus", "2", "--bytes", "16K,20K"])

    def test_names_a_bad_flag(self):
        self.check_fails(2, "--repetitions", "1 to 10000", arguments=["--gpus", "2", "-r", "0"])
        self.check_fails(2, "--output-format", "md, json, csv", arguments=["--gpus", "2", "-o", "xml"])
        self.check_fails(2, "--op", arguments=["--gpus", "2", "--op", "all-reduce"])

    def test_gpus_that_do_not_exist_are_one_line(self):
        for gpus in ["62,63", "63,63"]:
            with self.subTest(gpus=gpus):
                line = self.check_fails(1, arguments=["--gpus", gpus, "--bytes", "16K"])
                self.assertRegex(line, "GPU|no NVIDIA driver")


if __name__ == "__main__":
    unittest.main()
