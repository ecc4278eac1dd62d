"""--weights and --lm-head: 8-bit weights answer, take half the memory, and are refused where nothing runs them."""

import json
import unittest

import tiny_model
from harness import Case, run

FP8 = ("--weights", "fp8", "--lm-head", "fp8")


class WeightFormats(Case):
    def log_probabilities(self, *flags):
        result = run("generate", "--backend", "host", "-s", "1", "-p", "Once upon", "-n", "12", "--temp", "0", "--json", *flags)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        response = json.loads(result.stdout)["responses"][0]
        self.assertEqual(len(response["tokens"]), 12)
        return response["log_probabilities"]

    def test_each_flag_changes_the_result_and_bf16_does_not(self):
        answers = {flags: self.log_probabilities(*flags) for flags in ((), FP8[:2], FP8[2:], FP8)}
        self.assertEqual(len({tuple(answer) for answer in answers.values()}), len(answers))
        self.assertEqual(self.log_probabilities("--weights", "bf16", "--lm-head", "bf16"), answers[()])
        self.assertEqual(self.log_probabilities(*FP8), answers[FP8])

    def test_info_has_the_bytes_in_memory(self):
        config = tiny_model.config()
        hidden, intermediate, vocab = (config[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
        query = config["num_attention_heads"] * config["head_dim"]
        key_value = config["num_key_value_heads"] * config["head_dim"]
        # Rows and columns of the matrices of the one layer.
        shapes = [(query, hidden), (key_value, hidden), (key_value, hidden), (hidden, query)]
        shapes += [(intermediate, hidden), (intermediate, hidden), (hidden, intermediate)]
        saved = sum(rows * cols - 4 * rows for rows, cols in shapes)  # a scale has 4 bytes
        sizes = {
            flags: json.loads(run("info", "--json", "-m", self.model, *flags).stdout)["model"]["weight_bytes"]
            for flags in ((), FP8[:2], FP8[2:])
        }
        self.assertEqual(sizes[()] - sizes[FP8[:2]], saved)
        # The embedding, to which the head is tied, stays.
        self.assertEqual(sizes[FP8[2:]] - sizes[()], vocab * (hidden + 4))

    def test_a_program_is_of_its_types(self):
        program = self.path("program")
        result = run("schedule", "-m", self.model, "--sms", "2", "-o", program, *FP8)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertEqual(run("validate", program, "-m", self.model, *FP8).returncode, 0)
        self.assertEqual(run("validate", program, "-m", self.model).returncode, 1)

    def test_other_types_are_refused(self):
        for flag in ("--weights", "--lm-head"):
            self.check_fails(2, flag, "fp9", "auto", "bf16", "fp8", arguments=["generate", "-p", "A", flag, "fp9"])

    def test_several_gpus_and_libtorch_are_refused(self):
        for flag in ("--weights", "--lm-head"):
            self.check_fails(2, "1 GPU", arguments=["generate", "-p", "A", "--gpus", "2", flag, "fp8"])
            self.check_fails(2, "torch", arguments=["generate", "-p", "A", "--backend", "torch", flag, "fp8"])


if __name__ == "__main__":
    unittest.main()
