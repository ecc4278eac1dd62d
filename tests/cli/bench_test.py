"""serval bench: rows as llama-bench has them. How fast it is, is not tested."""

import csv
import io
import json
import unittest

import schema
from harness import Case, run

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

    def test_batch_sizes_multiply_the_tests(self):
        rows = json.loads(self.bench("-o", "json", "-b", "1,3"))
        self.assertEqual([r["batch"] for r in rows], [1, 1, 1, 3, 3, 3])

    def test_0_leaves_a_kind_out(self):
        result = run("bench", *self.with_model, "-p", "0", "-n", "2", "-r", "1", "-o", "json")
        self.assertEqual([r["test"] for r in json.loads(result.stdout)], ["tg2"])

    def test_bad_lists_are_refused(self):
        for value in ["", ",", "4,", "4,,5", "x", "4;5", "-1", "99999999999"]:
            with self.subTest(value=value):
                self.check_fails(2, "--n-prompt", arguments=["bench", "-p", value])
        self.check_fails(2, "--batch-size", "1 to 16", arguments=["bench", "-b", "17"])
        self.check_fails(2, "--repetitions", "1 to 10000", arguments=["bench", "-r", "0"])
        self.check_fails(2, "no test", arguments=["bench", "-p", "0", "-n", "0"])


if __name__ == "__main__":
    unittest.main()
