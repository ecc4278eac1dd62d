"""serval validate: accepts correct programs and refuses others with a reason."""

import json
import unittest

import program_file
from harness import Case, run

class Validate(Case):
    def setUp(self):
        self.program = self.path("program")
        result = run("schedule", "-m", self.model, "--sms", "3", "-o", self.program)
        self.assertEqual(result.returncode, 0, msg=result.stderr)

    def validate(self, *arguments, code=0):
        result = run("validate", *arguments)
        self.assertEqual(result.returncode, code, msg=result.stderr)
        return result.stdout.decode()

    def lower_a_threshold(self):
        return program_file.lower_a_threshold(self.program)

    def test_what_the_scheduler_makes_is_valid(self):
        for policy in ["round-robin", "zig-zag", "wave", "list"]:
            self.assertRegex(
                self.validate("-m", self.model, "--policy", policy),
                r"^valid: \d+ instructions, \d+ counters \(\d+\.\d ms\)\n$",
            )
        self.assertIn("valid: ", self.validate("-m", self.model, "--queue", "global", "--machine", "host"))

    def test_a_preset_needs_no_weights(self):
        self.assertIn("valid: ", self.validate("-m", "llama-3.2-1b"))

    def test_programs_of_tiles(self):
        for rows in ["64", "256", "2048"]:
            self.assertIn("valid: ", self.validate("-m", "llama-3.2-1b", "--sms", "16", "--rows", rows))
        file = self.path("tiles")
        self.assertEqual(run("schedule", "--sms", "2", "--rows", "64", "-o", file).returncode, 0)
        self.assertIn("valid: ", self.validate(file))
        # The program also runs on the host, with the same text in every order that the counters allow.
        story = ["-p", "Once upon a time", "-n", "4", "--temp", "0"]
        texts = {
            run("generate", "--program", file, "--interleaving", seed, "--checked", *story).stdout
            for seed in ["1", "2"]
        }
        self.assertEqual(texts, {run("generate", "--backend", "host", *story).stdout})

    def test_programs_of_several_gpus(self):
        for gpus in ["2", "4", "8"]:
            self.assertIn("valid: ", self.validate("-m", "llama-3.2-1b", "--gpus", gpus))
        file = self.path("ranks")
        self.assertEqual(run("schedule", "--gpus", "2", "--sms", "2", "-o", file).returncode, 0)
        self.assertIn("valid: ", self.validate(file))
        listing = run("schedule", file, "--disassemble").stdout.decode()
        for line in ["# 2 ranks of 2 SMs\n", "\nrank 0 SM 1\n", "\nrank 1 SM 0\n", " partial=exchange@* ", " weights=model.layers.0.self_attn.o_proj.weight@1 "]:
            self.assertIn(line, listing)
        refused = run("validate", "--gpus", "2", "--queue", "global")
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"several GPUs need per-sm", refused.stderr)

    def test_a_program_file(self):
        self.assertIn("valid: ", self.validate(self.program))

    def test_a_program_file_computes_its_model_and_no_other(self):
        self.assertIn("valid: ", self.validate(self.program, "-m", self.model))
        line = self.validate(self.program, "-m", "llama-3.2-1b", code=1)
        self.assertRegex(line, r"^invalid: model: not compiled from model llama-3.2-1b: .*\n$")
        out = json.loads(self.validate(self.program, "-m", "llama-3.2-1b", "--json", code=1))
        self.assertEqual((out["valid"], out["violation"]["rule"]), (False, "model"))
        refused = run("validate", self.program, "-m", self.model, "--sms", "2")
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"--sms", refused.stderr)

    def test_the_program_of_one_row_with_batch_invariant_runs_on_the_host(self):
        file = self.path("row")
        self.assertEqual(run("schedule", "--sms", "2", "--rows", "1", "--batch-invariant", "-o", file).returncode, 0)
        self.assertIn(b"# order: vector in tile order\n", run("schedule", file, "--disassemble").stdout)
        self.assertIn("valid: ", self.validate(file))
        result = run("generate", "--program", file, "-p", "Once upon a time", "-n", "4", "--temp", "0")
        self.assertEqual(result.returncode, 0, msg=result.stderr)

    def test_json(self):
        out = json.loads(self.validate(self.program, "--json"))
        self.assertEqual(set(out), {"valid", "instructions", "counters", "validate_ms"})
        self.assertIs(out["valid"], True)

    def test_a_lowered_threshold_is_refused_in_one_line(self):
        counter, threshold = self.lower_a_threshold()
        line = self.validate(self.program, code=1)
        self.assertRegex(line, r"^invalid: race: SM \d pc \d+ \(\w+.*nothing orders them\n$")
        self.assertEqual(line.count("\n"), 1)
        explained = self.validate(self.program, "--explain", code=1)
        self.assertTrue(explained.startswith(line))
        self.assertIn(f"waits for counter {counter} to reach {threshold - 1} of {threshold}", explained)
        out = json.loads(self.validate(self.program, "--json", code=1))
        self.assertEqual((out["valid"], out["violation"]["rule"]), (False, "race"))
        self.assertEqual(len(out["violation"]["instructions"]), 2)

    def test_how_to_compile_has_no_meaning_for_a_file(self):
        self.check_fails(2, "compiled already", arguments=["validate", self.program, "--sms", "3"])

    def test_a_file_of_another_kind(self):
        with open(self.program, "wb") as file:
            file.write(b"{}" * 1000)
        self.check_fails(1, self.program, "magic", arguments=["validate", self.program])


class Interleaving(Case):
    def test_it_never_shows_in_the_text(self):
        arguments = ["generate", "-m", self.model, "--random-weights", "1", "-p", "ab", "-n", "8", "-s", "1", "--sms", "3"]
        text = run(*arguments).stdout
        for seed in ["0", "1", "18446744073709551615"]:
            result = run(*arguments, "--interleaving", seed)
            self.assertEqual((result.returncode, result.stdout), (0, text), msg=result.stderr)
        self.assertEqual(run(*arguments, env={"SERVAL_INTERLEAVING": "7"}).stdout, text)

    def test_it_is_of_the_host_interpreter(self):
        self.check_fails(
            2,
            "interleaving",
            "host",
            arguments=["generate", "-m", self.model, "-p", "a", "--interleaving", "1", "--backend", "torch"],
        )


if __name__ == "__main__":
    unittest.main()
