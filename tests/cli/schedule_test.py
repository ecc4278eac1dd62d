"""serval schedule: statistics, listings and files of programs, without weights."""

import json
import os
import unittest

import schema
from harness import Case, run


class Schedule(Case):
    def schedule(self, *arguments, model=None):
        result = run("schedule", "-m", model or self.model, *arguments)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result.stdout.decode()

    def statistics(self, *arguments, model=None):
        out = json.loads(self.schedule("--json", *arguments, model=model))
        schema.check(out, schema.load("schedule.schema.json"))
        return out

    def test_the_json_fits_its_schema_and_adds_up(self):
        out = self.statistics("--sms", "4")
        self.assertEqual(out["instructions"], sum(op["instructions"] for op in out["ops"]))
        self.assertEqual((out["sms"], len(out["bytes_per_queue"])), (4, 4))
        self.assertEqual(out["metadata"]["model"], "tiny")

    def test_the_text_shows_what_a_program_consists_of(self):
        text = self.schedule()
        for part in ["h200, 132 SMs", "attention", "bytes a queue", "counters", "critical path"]:
            self.assertIn(part, text)

    def test_a_preset_needs_no_weights(self):
        out = self.statistics(model="llama-3.2-1b")
        self.assertEqual((out["machine"], out["sms"]), ("h200", 132))
        self.assertGreater(out["weight_bytes"], 2 * 10**9)

    def test_machine_policy_and_queue_are_chosen_by_flags(self):
        policies = ["round-robin", "zig-zag", "wave", "list"]
        for policy in policies:
            self.assertEqual(self.statistics("--policy", policy)["metadata"]["policy"], policy)
        self.assertIn(self.statistics("--policy", "best")["metadata"]["policy"], policies)
        self.assertIn(self.statistics("--policy", "best", "--machine", "host")["metadata"]["policy"], policies)
        self.assertEqual(self.statistics("--queue", "global")["queue"], "global")
        out = self.statistics("--machine", "host", "--threads", "3")
        self.assertEqual((out["machine"], out["sms"]), ("host", 3))

    def test_the_listing_has_a_line_for_every_instruction(self):
        count = self.statistics("--sms", "2")["instructions"]
        listing = self.schedule("--sms", "2", "--disassemble")
        self.assertIn("SM 1", listing)
        self.assertEqual(sum(" signal " in line for line in listing.splitlines()), count)

    def test_a_program_file_prints_as_what_it_was_compiled_from(self):
        path = self.path("program")
        compiled = self.schedule("--sms", "3", "-o", path)
        self.assertEqual(run("schedule", path).stdout.decode(), compiled)
        listing = self.schedule("--sms", "3", "--disassemble")
        self.assertEqual(run("schedule", path, "--disassemble").stdout.decode(), listing)

    def test_the_pass_that_is_looked_at_is_chosen(self):
        short = self.statistics("--cached-tokens", "1")
        self.assertGreater(self.statistics("--cached-tokens", "4000")["makespan_us"], short["makespan_us"])
        self.assertGreater(self.statistics("--rows", "16")["makespan_us"], self.statistics()["makespan_us"])

    def ops_of(self, *arguments):
        out = self.statistics("--sms", "8", *arguments, model="llama-3.2-1b")
        return {op["name"]: op["instructions"] for op in out["ops"]}

    def test_the_program_is_the_one_for_so_many_rows(self):
        few, tiles = self.ops_of("--rows", "16"), self.ops_of("--rows", "17")
        self.assertIn("attention", few)
        self.assertNotIn("attention", tiles)
        self.assertIn("planned_attention", tiles)
        self.assertEqual(self.ops_of("--rows", "64"), tiles)
        # 2,048 rows are eight tiles of 256.
        self.assertGreater(self.ops_of("--rows", "2048")["gate_up_silu"], self.ops_of("--rows", "256")["gate_up_silu"])
        self.assertEqual(self.ops_of("--rows", "2", "--batch-invariant"), tiles)
        # A single row is multiplied as a vector, with sums in tile order.
        one = self.ops_of("--rows", "1", "--batch-invariant")
        self.assertIn("planned_attention", one)
        self.assertEqual(one["gate_up_silu"], few["gate_up_silu"])
        # The largest pass has its own program.
        self.assertEqual(self.ops_of("--rows", "100", "--max-batch-tokens", "100"), self.ops_of("--rows", "256"))

    def test_the_host_has_one_program_for_all_passes(self):
        out = self.statistics("--machine", "host", "--rows", "64")
        self.assertIn("attention", [op["name"] for op in out["ops"]])

    def test_rows_out_of_range(self):
        self.check_fails(2, "--rows", "1 to 8192", arguments=["schedule", "--rows", "8193"])
        self.check_fails(2, "--rows: 64; limit: 32 (--max-batch-tokens)", arguments=["schedule", "--rows", "64", "--max-batch-tokens", "32"])


class BadPrograms(Case):
    def setUp(self):
        self.program = self.path("program")
        result = run("schedule", "-m", self.model, "--sms", "2", "-o", self.program)
        self.assertEqual(result.returncode, 0, msg=result.stderr)

    def refuses(self, *needles, code=1, arguments=()):
        self.check_fails(code, *needles, arguments=["schedule", self.program, *arguments])

    def test_a_missing_file(self):
        os.remove(self.program)
        self.refuses(self.program)

    def test_a_file_of_another_kind(self):
        with open(self.program, "wb") as file:
            file.write(b"{}" * 1000)
        self.refuses(self.program, "magic")

    def test_a_truncated_file(self):
        size = os.path.getsize(self.program)
        for length in [0, 1, 64, size // 2, size - 1]:
            with self.subTest(length=length):
                os.truncate(self.program, min(length, os.path.getsize(self.program)))
                self.refuses(self.program)
                self.setUp()

    def test_flipped_bytes_never_crash(self):
        with open(self.program, "rb") as file:
            good = file.read()
        step = max(1, len(good) // 60)
        for place in range(0, len(good), step):
            damaged = bytearray(good)
            damaged[place] ^= 0xFF
            with open(self.program, "wb") as file:
                file.write(damaged)
            result = run("schedule", self.program)
            # A file with a damaged name is still a valid program.
            self.assertIn(result.returncode, (0, 1), msg=(place, result.stderr))

    def test_how_to_compile_has_no_meaning_for_it(self):
        for flags in [["--sms", "3"], ["--policy", "list"], ["-m", self.model], ["-c", "64"]]:
            self.refuses("compiled already", code=2, arguments=flags)

    def test_a_file_that_cannot_be_written(self):
        for path in ["/nonexistent/program", self.directory.name]:
            self.check_fails(1, path, arguments=["schedule", "-m", self.model, "-o", path])


if __name__ == "__main__":
    unittest.main()
