"""--weights and --lm-head: weights of 8 and 4 bits answer, take less memory, and are refused where nothing runs them."""

import json
import unittest

import tiny_model
from harness import Case, run

FP8 = ("--weights", "fp8", "--lm-head", "fp8")
INT4 = ("--weights", "int4", "--lm-head", "int4")
GROUPS = {"int4": 128, "int4:128": 128, "int4:64": 64, "int4:32": 32}


class WeightFormats(Case):
    def log_probabilities(self, *flags):
        result = run("generate", "--backend", "host", "-s", "1", "-p", "Once upon", "-n", "12", "--temp", "0", "--json", *flags)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        response = json.loads(result.stdout)["responses"][0]
        self.assertEqual(len(response["tokens"]), 12)
        return response["log_probabilities"]

    def test_each_flag_changes_the_result_and_bf16_does_not(self):
        mixed = ("--weights", "int4:32", "--lm-head", "fp8")
        choices = ((), FP8[:2], FP8[2:], FP8, INT4[:2], INT4[2:], INT4, mixed)
        answers = {flags: self.log_probabilities(*flags) for flags in choices}
        self.assertEqual(len({tuple(answer) for answer in answers.values()}), len(answers))
        self.assertEqual(self.log_probabilities("--weights", "bf16", "--lm-head", "bf16"), answers[()])
        self.assertEqual(self.log_probabilities(*FP8), answers[FP8])
        self.assertEqual(self.log_probabilities("--weights", "int4:128", "--lm-head", "int4:128"), answers[INT4])

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

    def test_int4_takes_half_a_byte_a_weight_and_a_word_a_group(self):
        def facts(*flags):
            return json.loads(run("info", "--json", "-m", "llama-3.2-1b", *flags).stdout)["model"]

        layers = 16 * (2048 * (2048 + 2 * 512 + 2048 + 3 * 8192))
        rows = 16 * (2048 + 2 * 512 + 2048 + 2 * 8192 + 2048)
        for name, group in GROUPS.items():
            with self.subTest(name=name):
                found = facts("--weights", name)["weight_bytes_by_type"]
                self.assertEqual(found[f"int4:{group}"], layers // 2 + layers // group * 4 + rows * 4)
        self.assertLess(facts("-m", "llama-3.1-70b", "--weights", "int4")["weight_bytes"], 42e9)

    def test_a_program_is_of_its_types(self):
        for flags in (FP8, ("--weights", "int4:32")):
            with self.subTest(flags=flags):
                program = self.path("program" + flags[1])
                result = run("schedule", "-m", self.model, "--sms", "2", "-o", program, *flags)
                self.assertEqual(result.returncode, 0, msg=result.stderr)
                self.assertEqual(run("validate", program, "-m", self.model, *flags).returncode, 0)
                self.assertEqual(run("validate", program, "-m", self.model).returncode, 1)

    def test_columns_that_are_not_whole_groups_are_refused(self):
        needles = ("int4:128", "q_proj.weight has 64 columns", "a multiple of 128")
        self.check_fails(2, "weights", *needles, arguments=["generate", "-m", self.model, "-p", "A", "--weights", "int4"])

    def test_activations_of_8_bits_change_programs_of_large_passes_only(self):
        def stages(rows, *flags):
            result = run("schedule", "-m", "llama-3.2-1b", "--machine", "h200", "--max-batch-tokens", "128", "--rows", rows, "--json", *flags)
            self.assertEqual(result.returncode, 0, msg=result.stderr)
            return b"quantise_rows" in result.stdout

        self.assertTrue(stages("65", "--weights", "fp8"))
        self.assertTrue(stages("65", "--weights", "fp8", "--activations", "8bit"))
        self.assertFalse(stages("64", "--weights", "fp8", "--activations", "8bit"))
        self.assertFalse(stages("65", "--weights", "fp8", "--activations", "16bit"))
        self.assertFalse(stages("65", "--weights", "fp8", "--batch-invariant"))
        self.assertFalse(stages("65"))

    def test_activations_of_8_bits_are_refused_where_nothing_has_them(self):
        flags = ["--activations", "8bit"]
        compiling = ["schedule", "--machine", "h200", "--max-batch-tokens", "128", "--rows", "65"]
        self.check_fails(2, "needs weights in fp8; weights: bf16", arguments=[*compiling, "-m", "llama-3.2-1b", *flags])
        self.check_fails(2, "batch_invariant", arguments=["generate", "-p", "A", "--weights", "fp8", "--batch-invariant", *flags])
        self.check_fails(2, "needs a GPU", arguments=["generate", "-p", "A", "--weights", "fp8", "--backend", "host", *flags])
        self.check_fails(2, "4bit", "auto", "16bit", "8bit", arguments=["generate", "-p", "A", "--activations", "4bit"])
        self.check_fails(2, "multiples of 128", arguments=[*compiling, "-m", "smollm2-135m", "--weights", "fp8", *flags])

    def test_other_types_are_refused(self):
        for flag in ("--weights", "--lm-head"):
            self.check_fails(2, flag, "fp9", "auto", "bf16", "fp8", "int4", "int4:32", arguments=["generate", "-p", "A", flag, "fp9"])

    def test_several_gpus_and_libtorch_are_refused(self):
        for flag in ("--weights", "--lm-head"):
            for name in ("fp8", "int4:64"):
                self.check_fails(2, name, "1 GPU", arguments=["generate", "-p", "A", "--gpus", "2", flag, name])
                self.check_fails(2, name, "torch", arguments=["generate", "-p", "A", "--backend", "torch", flag, name])


if __name__ == "__main__":
    unittest.main()
