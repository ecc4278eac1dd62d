"""serval generate --program: a stored program runs only with the model that it was compiled for."""

import struct
import unittest

from harness import Case, run

LIMITS = 8 + 4 + 1 + 4 + 4  # offset in a program file: vocab, max_context, kv_blocks (docs/program_format.md)
DEVICES = 8 + 4 + 1


class Program(Case):
    def setUp(self):
        self.program = self.path("stored.program")
        result = run("schedule", "-m", self.model, "--sms", "3", "-c", "128", "-o", self.program)
        self.assertEqual(result.returncode, 0, msg=result.stderr)

    def arguments(self, *more):
        return ["generate", *self.with_model, "-p", "hello", "-n", "4", "-s", "1", "--ignore-eos", *more]

    def text(self, *more):
        result = run(*self.arguments(*more))
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result.stdout

    def patch(self, offset, value):
        with open(self.program, "r+b") as file:
            file.seek(offset)
            file.write(struct.pack("<I", value))

    def refuses(self, *needles):
        self.check_fails(1, self.program, *needles, arguments=self.arguments("--program", self.program))

    def test_it_says_what_the_compiled_model_says(self):
        self.assertEqual(self.text("--program", self.program), self.text("-c", "128"))

    def test_interleaved_and_checked_it_says_the_same(self):
        plain = self.text("-c", "128")
        for more in [["--checked"], ["--interleaving", "5"], ["--interleaving", "5", "--checked"]]:
            self.assertEqual(self.text("--program", self.program, *more), plain)

    def test_the_checked_mode_needs_no_file(self):
        self.assertEqual(self.text("--checked", "--sms", "2"), self.text())

    def test_one_of_another_model_is_refused(self):
        run("schedule", "--sms", "2", "-o", self.program)  # the bundled model
        self.refuses("not compiled from model", "limits.vocab")

    def test_limits_that_its_records_do_not_have_are_refused(self):
        self.patch(LIMITS + 4, 64)
        self.refuses("state.adjustments")
        self.patch(LIMITS + 4, 128)
        self.patch(LIMITS + 8, 1)
        self.refuses("k_cache: tensor")

    def test_one_whose_queues_are_of_fewer_devices_is_refused(self):
        self.patch(DEVICES, 2)
        self.refuses("queues: 3, expected 6")

    def test_a_file_that_is_no_program_is_refused(self):
        with open(self.program, "wb") as file:
            file.write(b"{}" * 100)
        self.refuses("magic")

    def test_how_to_compile_has_no_meaning_for_it(self):
        for flag, value in [("--sms", "3"), ("--ctx-size", "64"), ("--policy", "list"), ("--queue", "global")]:
            self.check_fails(
                2, flag, "compiled already", arguments=self.arguments("--program", self.program, flag, value)
            )
        self.check_fails(
            2,
            "--batch-invariant",
            "compiled already",
            arguments=self.arguments("--program", self.program, "--batch-invariant"),
        )

    def test_one_of_several_gpus_runs_on_as_many(self):
        file = self.path("ranks")
        result = run("schedule", "-m", self.model, "--gpus", "2", "--sms", "2", "-c", "128", "-o", file)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        text = self.text("--gpus", "2", "-c", "128")
        self.assertEqual(self.text("--program", file), text)
        self.assertEqual(self.text("--program", file, "--gpus", "1,0"), text)
        arguments = self.arguments("--program", self.program, "--gpus", "2")
        self.check_fails(2, "--gpus: 2; ", " is compiled for 1", arguments=arguments)

    def test_the_context_is_the_programs(self):
        self.check_fails(
            2, "128", arguments=["generate", *self.with_model, "-p", "x " * 200, "--program", self.program]
        )

    def test_no_other_backend_is_checked(self):
        self.check_fails(2, "checked", arguments=self.arguments("--checked", "--backend", "torch"))


if __name__ == "__main__":
    unittest.main()
