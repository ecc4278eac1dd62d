"""serval bench: rows in llama-bench's format. Does not test speed."""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import schema
from harness import PATIENCE, PROGRAM, Case, environment, run

ROW = r"^\| .* \| (pp|tg)(\d+) \| \d+\.\d+ ± \d+\.\d+ \| \d+\.\d+ \|$"


class Bench(Case):
    def bench(self, *arguments):
        result = run("bench", *self.with_model, "-p", "4,20", "-n", "3", "-r", "2", *arguments)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result.stdout.decode()

    def test_markdown_has_a_row_for_each_test(self):
        lines = self.bench().splitlines()
        self.assertEqual(len(lines), 2 + 3)
        for line, test in zip(lines[2:], ["pp4", "pp20", "tg3"]):
            self.assertRegex(line, ROW)
            self.assertIn(f"| {test} |", line)

    def test_json_fits_its_schema(self):
        rows = json.loads(self.bench("-o", "json"))
        schema.check(rows, schema.load("bench.schema.json"))
        self.assertEqual([r["test"] for r in rows], ["pp4", "pp20", "tg3"])
        self.assertTrue(all(len(r["samples"]) == 2 and r["mean_tokens_per_second"] > 0 for r in rows))

    def test_the_json_flag_does_the_same(self):
        schema.check(json.loads(self.bench("--json")), schema.load("bench.schema.json"))

    def test_csv_has_a_head_and_rows(self):
        rows = list(csv.DictReader(io.StringIO(self.bench("-o", "csv"))))
        self.assertEqual([r["test"] for r in rows], ["pp4", "pp20", "tg3"])
        self.assertTrue(all(float(r["mean_tokens_per_second"]) > 0 for r in rows))

    def test_every_form_says_how_many_gpus_share_the_model(self):
        shared = ["--gpus", "2", "-p", "0", "-r", "1"]
        for row in json.loads(self.bench("-o", "json", *shared)):
            self.assertEqual(row["gpus"], 2)
        for row in csv.DictReader(io.StringIO(self.bench("-o", "csv", *shared))):
            self.assertEqual(row["gpus"], "2")
        rows = json.loads(self.bench("-o", "json", "-d", "5", *shared))
        schema.check(rows, schema.load("bench_depth.schema.json"))
        self.assertEqual({r["gpus"] for r in rows}, {2})
        self.assertEqual({r["gpus"] for r in json.loads(self.bench("-o", "json", "-d", "5"))}, {1})

    def test_batch_sizes_multiply_the_tests(self):
        rows = json.loads(self.bench("-o", "json", "-b", "1,3"))
        self.assertEqual([r["batch"] for r in rows], [1, 1, 1, 3, 3, 3])

    def test_depth_multiplies_the_tests_and_records_them(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "records.jsonl")
            arguments = ["-d", "0,17", "-b", "1,2", "--launch-passes", "2", "--record", file]
            rows = json.loads(self.bench("-o", "json", *arguments))
            schema.check(rows, schema.load("bench_depth.schema.json"))
            tests = [(r["test"], r["batch"]) for r in rows]
            kinds = ["pp4", "pp20", "tg3"]
            self.assertEqual(tests, [(f"{t} @ d{d}", b) for d in (0, 17) for b in (1, 2) for t in kinds])
            self.bench("-o", "csv", *arguments)
            with open(file, encoding="utf-8") as lines:
                records = [json.loads(line) for line in lines]
            self.assertEqual(records[: len(rows)], rows)
            self.assertEqual(len(records), 2 * len(rows), msg="appended")

    def test_depth_has_tables_too(self):
        lines = self.bench("-d", "5").splitlines()
        self.assertEqual(len(lines), 2 + 3)
        self.assertIn("| tg3 @ d5 |", lines[-1])
        rows = list(csv.DictReader(io.StringIO(self.bench("-d", "5", "-o", "csv"))))
        self.assertTrue(all(float(r["us_per_pass_total"]) > 0 and r["us_per_pass_kernel"] == "" for r in rows))

    def test_flags_of_depth_need_it(self):
        self.check_fails(2, "--record", "--depth or --requests", arguments=["bench", "--record", "x"])
        self.check_fails(2, "--launch-passes", "--depth", arguments=["bench", "--launch-passes", "2"])

    def test_requests_are_timed_under_the_names_of_vllm(self):
        with open(self.path("pairs.txt"), "w", encoding="utf-8") as file:
            file.write("3 4\n\n10 1\n")
        for lengths, tokens in [([], (5 * 6, 5 * 2)), (["--lengths", self.path("pairs.txt")], (29, 14)), (["--lengths", "7"], None)]:
            result = run("bench", *self.with_model, "--requests", "5", "--input", "6", "--output", "2", "--rate", "500", *lengths, "--json")
            self.assertEqual(result.returncode, 0, msg=result.stderr)
            figures = json.loads(result.stdout)
            schema.check(figures, schema.load("bench_requests.schema.json"))
            self.assertEqual((figures["num_prompts"], figures["completed"], figures["failed"]), (5, 5, 0))
            if tokens:
                self.assertEqual((figures["total_input_tokens"], figures["total_output_tokens"]), tokens)
        for arguments in [[], ["-o", "csv"]]:
            out = run("bench", *self.with_model, "--requests", "2", "--input", "4", "--output", "2", *arguments).stdout
            self.assertTrue(out)

    def test_requests_are_recorded_as_they_are_printed(self):
        file = self.path("requests.jsonl")
        printed = []
        for arguments in [[], ["--gpus", "2"]]:
            result = run("bench", *self.with_model, "--requests", "2", "--input", "4", "--output", "2", "--json", "--record", file, *arguments)
            self.assertEqual(result.returncode, 0, msg=result.stderr)
            printed.append(json.loads(result.stdout))
            schema.check(printed[-1], schema.load("bench_requests.schema.json"))
        with open(file, encoding="utf-8") as lines:
            self.assertEqual([json.loads(line) for line in lines], printed)
        self.assertEqual([record["gpus"] for record in printed], [1, 2])

    def test_flags_of_requests_need_it(self):
        for flag in ["--input", "--output", "--rate", "--lengths", "--max-sequences"]:
            self.check_fails(2, flag, "--requests", arguments=["bench", flag, "3"])
        self.check_fails(2, "--depth", arguments=["bench", "--requests", "3", "-d", "3"])
        with open(self.path("bad.txt"), "w", encoding="utf-8") as file:
            file.write("3 4\n3\n")
        self.check_fails(1, "bad.txt", "line 2", arguments=["bench", "--requests", "1", "--lengths", self.path("bad.txt")])

    def test_0_leaves_a_kind_out(self):
        result = run("bench", *self.with_model, "-p", "0", "-n", "2", "-r", "1", "-o", "json")
        self.assertEqual([r["test"] for r in json.loads(result.stdout)], ["tg2"])

    def test_bad_lists_are_refused(self):
        for value in ["", ",", "4,", "4,,5", "x", "4;5", "-1", "99999999999"]:
            with self.subTest(value=value):
                self.check_fails(2, "--n-prompt", arguments=["bench", "-p", value])
        self.check_fails(2, "--batch-size", "1 to 1024", arguments=["bench", "-b", "1025"])
        self.check_fails(2, "--repetitions", "1 to 10000", arguments=["bench", "-r", "0"])
        self.check_fails(2, "no test", arguments=["bench", "-p", "0", "-n", "0"])


class InTurn(unittest.TestCase):
    """benchmarks/in_turn.py compares the times of two executables."""

    SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/in_turn.py"

    def compare(self, *arguments):
        command = [sys.executable, "-B", str(self.SCRIPT), PROGRAM, PROGRAM, "--rounds", "2", *arguments]
        return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)

    def test_each_test_of_each_command_has_a_row(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "figures.json"
            decoding = ["-p", "0", "-n", "4", "-d", "8", "-b", "1,2", "-r", "1", "-c", "64"]
            serving = ["--requests", "2", "--input", "8", "--output", "4"]
            done = self.compare("--json", str(path), "--", *decoding, "--", *serving)
            self.assertEqual(done.returncode, 0, msg=done.stderr)
            found = json.loads(path.read_text())
        self.assertEqual([command["flags"] for command in found], [decoding, serving])
        tests = [[(f["test"], f["unit"]) for f in command["figures"]] for command in found]
        of_one = [("tg4 @ d8", "us"), ("tg4 @ d8 x 2", "us")]
        self.assertEqual(tests, [of_one * 2, [("requests", "tokens/s")] * 2])
        self.assertTrue(all(f["median"] > 0 for command in found for f in command["figures"]))
        self.assertEqual(len([line for line in done.stdout.splitlines() if line.startswith("  ")]), 3)

    def test_a_command_that_fails_is_told(self):
        done = self.compare("--", "-p", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 2", done.stderr)
        self.assertIn("--n-prompt", done.stderr)


if __name__ == "__main__":
    unittest.main()
