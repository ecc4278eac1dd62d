"""serval verify: the gate holds for the bundled model, and fails if the two sides use different weights."""

import json
import os
import shutil
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../cli"))
import harness  # noqa: E402  (found by the line above)
import tiny_model  # noqa: E402
import tiny_quantised  # noqa: E402

HAS_TORCH = os.environ.get("SERVAL_TEST_HAS_TORCH") == "1"
BUNDLED = os.path.join(os.path.dirname(__file__), "../../assets/serval-stories")
NO_PLUGIN = {"SERVAL_TORCH_PLUGIN": "/nowhere/libserval_torch.so"}
POSITIONS = 256
BF16_ONE, BF16_TWO = 0x3F80, 0x4000


def read_header(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def double_a_norm(path, layer):
    """Doubles the weights of one layer's input norm by adding 1 to the exponent of each bf16."""
    header, data = read_header(path)
    begin, end = header[f"model.layers.{layer}.input_layernorm.weight"]["data_offsets"]
    with open(path, "r+b") as file:
        file.seek(data + begin)
        values = struct.unpack(f"<{(end - begin) // 2}H", file.read(end - begin))
        file.seek(data + begin)
        file.write(struct.pack(f"<{len(values)}H", *(v + BF16_TWO - BF16_ONE for v in values)))


class WithoutThePlugin(harness.Case):
    def test_verify_says_how_to_get_it(self):
        self.check_fails(1, "libserval_torch.so", "apt install libtorch-dev", arguments=("verify",), env=NO_PLUGIN)

    def test_so_does_the_backend(self):
        self.check_fails(
            1,
            "backend torch",
            "apt install libtorch-dev",
            arguments=("generate", "-p", "x", "--backend", "torch", *self.with_model),
            env=NO_PLUGIN,
        )

    def test_our_own_logits_need_none(self):
        path = self.path("ours.safetensors")
        result = harness.run(
            "verify", "--ours-only", "--dump", path, "--random-tokens", "3", *self.with_model, "-c", "300", env=NO_PLUGIN
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        header, data = read_header(path)
        self.assertEqual(header["tokens"], {"dtype": "I32", "shape": [POSITIONS], "data_offsets": [0, 4 * POSITIONS]})
        self.assertEqual(header["ours"]["dtype"], "F32")
        vocab = header["ours"]["shape"][1]
        self.assertEqual(os.path.getsize(path), data + 4 * POSITIONS * (1 + vocab))

    def test_rows_of_a_pass_and_sequences_do_not_show_in_them(self):
        dumps = []
        for name, arguments in [("16", []), ("one", ["--max-batch-tokens", "256"]), ("64", ["--batch-size", "64"])]:
            path = self.path(name)
            arguments += ["--backend", "host", *self.with_model, "-c", "300", "--random-tokens", "3"]
            result = harness.run("verify", "--ours-only", "--dump", path, *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, "rb") as file:
                dumps.append(file.read())
        self.assertEqual(dumps[1:], [dumps[0]] * 2)


class BadFlags(harness.Case):
    def test_fewer_positions_than_a_mean_needs(self):
        self.check_fails(2, "--positions", "256", arguments=("verify", "-n", "255"))

    def test_ours_only_without_a_dump(self):
        self.check_fails(2, "--ours-only", "--dump", arguments=("verify", "--ours-only"))

    def test_text_and_random_tokens(self):
        self.check_fails(2, "--random-tokens", arguments=("verify", "--text", "x", "--random-tokens", "1"))

    def test_a_batch_that_no_state_holds(self):
        self.check_fails(2, "--batch-size", "1025", "1 to 1024", arguments=("verify", "--batch-size", "1025"))

    def test_a_batch_of_more_than_a_pass(self):
        arguments = ("verify", "--batch-size", "64", "--max-batch-tokens", "32")
        self.check_fails(2, "--batch-size", "64", "limit: 32 (--max-batch-tokens)", arguments=arguments)

    def test_a_batch_of_a_backend_without_batches(self):
        self.check_fails(2, "--batch-size", "torch", arguments=("verify", "-b", "4", "--backend", "torch"))

    def test_a_pass_of_more_than_the_context(self):
        arguments = ("verify", "--ours-only", "--dump", self.path("d"), "-c", "512", "--max-batch-tokens", "8192")
        self.check_fails(2, "--max-batch-tokens", "8192", "512", arguments=(*arguments, *self.with_model))

    def test_a_text_shorter_than_the_positions(self):
        text = self.path("short.txt")
        with open(text, "w", encoding="utf-8") as file:
            file.write("A short text.")
        self.check_fails(
            2, "256", "short.txt", arguments=("verify", "--ours-only", "--dump", self.path("d"), "--text", text)
        )

    def test_a_text_that_is_not_there(self):
        self.check_fails(
            1, "nowhere.txt", arguments=("verify", "--ours-only", "--dump", self.path("d"), "--text", "nowhere.txt")
        )

    def test_a_context_smaller_than_the_positions(self):
        self.check_fails(
            2,
            "256",
            "128",
            arguments=("verify", "--ours-only", "--dump", self.path("d"), "-c", "128", *self.with_model),
        )


@unittest.skipUnless(HAS_TORCH, "built without LibTorch (Debian: apt install libtorch-dev)")
class Gate(harness.Case):
    def verify(self, *arguments):
        result = harness.run("verify", "--json", *arguments)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["passed"], result.returncode == 0)
        return report

    def test_bundled_model_is_within_it(self):
        report = self.verify("--dump", self.path("all.safetensors"))
        self.assertTrue(report["passed"], report)
        self.assertEqual(report["positions"], POSITIONS)
        for name in ("ours", "reference_bf16"):
            self.assertGreater(report[name]["mean_relative_error"], 0)
            self.assertGreater(report[name]["top1_agreement"], 0.9)
            self.assertLess(report[name]["worst_position"]["position"], POSITIONS)
        for figure in ("relative_error", "kl_divergence"):
            self.assertLessEqual(report["ratio"][figure], report["gate"])
        header, _ = read_header(self.path("all.safetensors"))
        self.assertEqual(set(header), {"tokens", "ours", "reference.fp32", "reference.bf16"})

    def test_so_is_one_of_random_weights(self):
        report = self.verify(*self.with_model, "-c", "512")
        self.assertTrue(report["passed"], report)

    def test_so_are_codes_that_a_checkpoint_has(self):
        for name in ("fp8-tensor", "float-quantized"):
            quantised, dense = self.path(name), self.path(name + "-bf16")
            tiny_quantised.write(quantised, dense, name)
            arguments = ("-c", "512", "--random-tokens", "1", "--backend", "host")
            report = self.verify("-m", quantised, *arguments)
            self.assertTrue(report["passed"], report)
            # The weights of the bf16 file have the same values.
            other = self.verify("-m", quantised, "--reference", dense, *arguments)
            self.assertEqual(other["ratio"], report["ratio"])

    def test_so_is_a_text_that_one_pass_reads(self):
        self.assertTrue(self.verify("--max-batch-tokens", str(POSITIONS))["passed"])

    def test_so_is_one_that_a_batch_decodes(self):
        report = self.verify(*self.with_model, "-c", "512", "--batch-size", "64")
        self.assertTrue(report["passed"], report)
        self.assertEqual(report["batch"], {"size": 64, "rows_of_other_bits": 0})

    def test_so_are_models_that_ranks_share(self):
        self.assertTrue(self.verify("--backend", "host", "--gpus", "2")["passed"])
        shared = self.path("shared")
        tiny_model.write(
            shared,
            weights=False,
            hidden_size=512,
            intermediate_size=1024,
            num_attention_heads=16,
            num_key_value_heads=8,
            num_hidden_layers=2,
        )
        for gpus in ["2", "4", "8"]:
            report = self.verify("-m", shared, "--random-weights", "1", "--backend", "host", "--gpus", gpus, "-c", "512")
            self.assertTrue(report["passed"], report)

    def test_one_norm_that_differs_is_outside(self):
        other = self.path("perturbed")
        shutil.copytree(BUNDLED, other)
        double_a_norm(os.path.join(other, "model.safetensors"), layer=3)
        report = self.verify("--reference", other)
        self.assertFalse(report["passed"], report)
        self.assertGreater(report["ratio"]["relative_error"], 2)

    def test_the_table_says_so_in_words(self):
        result = harness.run("verify")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"within the gate of 1.05", result.stdout)
        self.assertNotIn(b"decoded", result.stdout)

    def test_it_says_how_many_sequences_decoded(self):
        result = harness.run("verify", *self.with_model, "-c", "512", "-b", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"decoded in 2 sequences: all have the same bits\nwithin the gate of 1.05", result.stdout)


if __name__ == "__main__":
    unittest.main()
