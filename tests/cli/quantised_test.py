"""Quantised checkpoints: each answers as the same model in bf16 does, and a damaged one gives one line."""

import json
import os
import unittest

import tiny_model
import tiny_quantised
from harness import Case, run

PROMPT = "The quick brown fox"

# What serval info says of each format.
FORMATS = {
    "fp8-blocks": "fp8: e4m3 in blocks of 48 × 40",
    "fp8-tensor": "fp8: e4m3 with a scale per matrix or row",
    "fbgemm": "fbgemm_fp8: e4m3 with a scale per row",
    "modelopt": "modelopt: e4m3 with a scale per matrix",
    "float-quantized": "compressed-tensors: e4m3 with a scale per row",
    "int-quantized": "compressed-tensors: 8-bit integers in groups of 32",
    "pack-quantized-4": "compressed-tensors: 4-bit integers in groups of 32",
    "pack-quantized-8": "compressed-tensors: 8-bit integers in groups of 32",
    "gptq-4": "gptq: 4-bit integers in groups of 32",
    "gptq-8-act-order": "gptq: 8-bit integers in groups of 32",
    "gptq-v2": "gptq: 4-bit integers with a scale per row",
    "awq": "awq: 4-bit integers in groups of 32",
}


class Quantised(Case):
    def pair(self, name):
        quantised, dense = self.path(name), self.path(f"{name}-bf16")
        if not os.path.exists(quantised):
            tiny_quantised.write(quantised, dense, name)
        return quantised, dense

    def answer(self, model):
        result = run("generate", "-m", model, "-p", PROMPT, "-n", "16", "--temp", "0", "--ignore-eos", "--json")
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        response = json.loads(result.stdout)["responses"][0]
        return response["tokens"], response["log_probabilities"], result.stderr.decode()

    def test_each_format_is_tested(self):
        self.assertEqual(sorted(FORMATS), sorted(tiny_quantised.FORMATS))

    def test_each_format_answers_as_its_values_in_bf16(self):
        answers = set()
        for name in FORMATS:
            with self.subTest(format=name):
                quantised, dense = self.pair(name)
                tokens, probabilities, _ = self.answer(quantised)
                self.assertEqual((tokens, probabilities), self.answer(dense)[:2])
                answers.add(tuple(probabilities))
        self.assertEqual(len(answers), len(FORMATS))  # of different weights

    def test_info_names_the_format(self):
        for name, text in FORMATS.items():
            with self.subTest(format=name):
                facts = json.loads(run("info", "--json", "-m", self.pair(name)[0]).stdout)
                self.assertEqual(facts["model"]["weight_format"], text)
        facts = json.loads(run("info", "--json", "-m", self.pair("awq")[1]).stdout)
        self.assertEqual(facts["model"]["weight_format"], "BF16")

    def test_activations_that_stay_16_bits_wide_are_mentioned(self):
        log = self.answer(self.pair("fp8-tensor")[0])[2]
        self.assertIn("activation_scheme: activations stay in bf16, not in e4m3 (static)", log)
        log = self.answer(self.pair("gptq-4")[0])[2]
        self.assertEqual(log.count("\n"), 1, msg=log)
        self.assertIn("7 int4 tensors rounded to the nearest bf16", log)

    def test_models_lists_them_as_running(self):
        self.pair("awq")
        entries = json.loads(run("models", self.path("awq"), "--json").stdout)
        self.assertEqual([entry["problem"] for entry in entries if entry.get("path") == self.path("awq")], [""])


class Lies(Case):
    """Each test breaks one thing in a valid model."""

    def setUp(self):
        self.broken = self.path(self.id().rsplit(".", 1)[-1])
        tiny_quantised.write(self.broken, self.broken + "-bf16", "gptq-4")

    def change(self, **values):
        path = os.path.join(self.broken, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["quantization_config"].update(values)
        tiny_model.write_json(path, config)

    def refuses(self, *needles):
        self.check_fails(1, *needles, arguments=["generate", "-m", self.broken, "-p", "x", "-n", "1"])

    def test_an_unknown_method(self):
        self.change(quant_method="quip")
        self.refuses("config.json: quantization_config.quant_method: found \"quip\"; supported: awq")

    def test_bits_that_are_not_supported(self):
        self.change(bits=3)
        self.refuses("quantization_config.bits: found 3; supported: 4 and 8")

    def test_groups_that_do_not_divide(self):
        self.change(group_size=48)
        self.refuses("self_attn.q_proj.qweight", "the group size 48 does not divide its 64 columns")

    def test_another_layout_than_stated(self):
        self.change(quant_method="awq", version="gemm")
        self.refuses("self_attn.q_proj.qweight", "found shape [8, 128], expected [64, 16]")

    def test_a_file_that_is_cut_off(self):
        path = os.path.join(self.broken, "model.safetensors")
        os.truncate(path, os.path.getsize(path) - 1)
        self.refuses("model.safetensors", "data_offsets")

    def test_a_module_that_the_configuration_leaves_out(self):
        self.change(modules_to_not_convert=["o_proj"])
        self.refuses("self_attn.o_proj", "stored quantised", "modules_to_not_convert")


if __name__ == "__main__":
    unittest.main()
