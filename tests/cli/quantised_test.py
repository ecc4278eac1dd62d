"""Quantised checkpoints: in bf16 each answers as its values do, codes of 8 and 4 bits are kept, and a damaged file gives one line."""

import json
import math
import os
import struct
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
    "gptq-4-act-order": "gptq: 4-bit integers in groups of 32",
    "gptq-v2": "gptq: 4-bit integers with a scale per row",
    "awq": "awq: 4-bit integers in groups of 32",
}
# Those that --weights auto keeps as they are, and how serval info names the type.
KEPT = dict.fromkeys(("fp8-tensor", "fbgemm", "modelopt", "float-quantized"), "e4m3")
KEPT |= dict.fromkeys(("pack-quantized-4", "gptq-4", "awq"), "int4:32") | {"gptq-v2": "int4:64"}  # of rows of 64 and 128
BF16 = ("--weights", "bf16")
FP8 = ("--weights", "fp8")
FLAGS = {"e4m3": FP8, "int4:32": ("--weights", "int4:32"), "int4:64": ("--weights", "int4:64")}
DEQUANTISED = "stored codes are dequantised to bf16: "


class Quantised(Case):
    def pair(self, name):
        quantised, dense = self.path(name), self.path(f"{name}-bf16")
        if not os.path.exists(quantised):
            tiny_quantised.write(quantised, dense, name)
        return quantised, dense

    def answer(self, model, *flags):
        result = run("generate", "-m", model, "-p", PROMPT, "-n", "16", "--temp", "0", "--ignore-eos", "--json", *flags)
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
                tokens, probabilities, _ = self.answer(quantised, *BF16)
                self.assertEqual((tokens, probabilities), self.answer(dense)[:2])
                answers.add(tuple(probabilities))
        self.assertEqual(len(answers), len(FORMATS))  # of different weights

    def test_codes_are_kept(self):
        for name, kind in KEPT.items():
            with self.subTest(format=name):
                quantised, _ = self.pair(name)
                tokens, probabilities, log = self.answer(quantised)
                self.assertIn(f"7 {kind.split(':')[0]} tensors kept as stored", log)
                self.assertNotIn("rounded", log)
                self.assertNotIn(DEQUANTISED, log)
                self.assertEqual((tokens, probabilities), self.answer(quantised, *FLAGS[kind])[:2])
                self.assertEqual((tokens, probabilities), self.answer(quantised, "--weights", "auto", "--lm-head", "auto")[:2])
                # In bf16 the weights have the same values, or those rounded; activations are rounded to fp16 instead.
                in_bf16 = self.answer(quantised, *BF16)
                self.assertNotEqual(probabilities, in_bf16[1])
                self.assertEqual(tokens[0], in_bf16[0][0])
                self.assertAlmostEqual(probabilities[0], in_bf16[1][0], delta=0.05)
                self.assertNotIn(DEQUANTISED, in_bf16[2])  # it was asked for

    def test_blocks_are_dequantised_and_the_log_says_why(self):
        quantised, dense = self.pair("fp8-blocks")
        tokens, probabilities, log = self.answer(quantised)
        self.assertEqual((tokens, probabilities), self.answer(dense)[:2])
        self.assertIn(f"{DEQUANTISED}tensor", log)
        self.assertIn("q_proj.weight\" is e4m3 in blocks of 48 × 40, not e4m3 with a scale per matrix or row", log)
        self.assertEqual(log.count(DEQUANTISED), 1)
        # They can be rounded to e4m3 with other scales, as any weights.
        self.assertEqual(self.answer(quantised, *FP8)[:2], self.answer(dense, *FP8)[:2])

    def test_columns_that_are_not_in_sequence_are_dequantised_and_the_log_says_why(self):
        quantised, dense = self.pair("gptq-4-act-order")
        tokens, probabilities, log = self.answer(quantised)
        self.assertEqual((tokens, probabilities), self.answer(dense)[:2])
        self.assertIn("q_proj.weight\" is 4-bit integers in groups of 32 whose columns are not in sequence (g_idx), not 4-bit", log)
        self.assertEqual(log.count(DEQUANTISED), 1)

    def test_formats_of_other_codes_need_no_reason(self):
        for name in ("int-quantized", "gptq-8-act-order", "pack-quantized-8"):
            self.assertNotIn("dequantised", self.answer(self.pair(name)[0])[2])

    def test_a_program_decides_the_type_of_the_codes(self):
        quantised, _ = self.pair("float-quantized")
        for flags in ((), BF16):
            with self.subTest(flags=flags):
                program = self.path("program" + "-".join(flags))
                result = run("schedule", "-m", quantised, "-c", "128", "--sms", "2", "-o", program, *flags)
                self.assertEqual(result.returncode, 0, msg=result.stderr)
                self.assertEqual(run("validate", program, "-m", quantised, *flags).returncode, 0)
                tokens, probabilities, log = self.answer(quantised, "--program", program)
                self.assertEqual((tokens, probabilities), self.answer(quantised, *flags)[:2])
                self.assertEqual(f"{DEQUANTISED}{program} is compiled for bf16" in log, flags == BF16)

    def test_info_has_bytes_by_type(self):
        matrices = [
            shape
            for name, shape in tiny_model.tensor_shapes(tiny_model.config()).items()
            if name.removesuffix(".weight").rsplit(".", 1)[-1] in tiny_quantised.MODULES
        ]
        in_bf16 = sum(2 * rows * cols for rows, cols in matrices)
        in_codes = {  # codes, and a scale for each row, or a word for each group, too
            "e4m3": sum(rows * (cols + 4) for rows, cols in matrices),
        } | {f"int4:{group}": sum(rows * (-(-cols // 128) * 64 + cols // group * 4 + 4) for rows, cols in matrices) for group in (32, 64)}

        def sizes(model, *flags):
            facts = json.loads(run("info", "--json", "-m", model, *flags).stdout)["model"]
            self.assertEqual(sum(facts["weight_bytes_by_type"].values()), facts["weight_bytes"])
            return facts["weight_bytes_by_type"]

        for name in FORMATS:
            with self.subTest(format=name):
                quantised, dense = self.pair(name)
                plain = sizes(dense)
                self.assertEqual(set(plain), {"bf16"})
                self.assertEqual(sizes(quantised, *BF16), plain)
                kept = {kind: {"bf16": plain["bf16"] - in_bf16, kind: bytes} for kind, bytes in in_codes.items()}
                self.assertEqual(sizes(quantised), kept[KEPT[name]] if name in KEPT else plain)
                for kind, flags in FLAGS.items():
                    self.assertEqual(sizes(quantised, *flags), kept[kind])
        # Several GPUs have bf16 only.
        self.assertEqual(sizes(self.pair("fbgemm")[0], "--gpus", "2"), plain)

    def test_info_names_the_format(self):
        for name, text in FORMATS.items():
            with self.subTest(format=name):
                facts = json.loads(run("info", "--json", "-m", self.pair(name)[0]).stdout)
                self.assertEqual(facts["model"]["weight_format"], text)
        facts = json.loads(run("info", "--json", "-m", self.pair("awq")[1]).stdout)
        self.assertEqual(facts["model"]["weight_format"], "BF16")

    def test_activations_that_stay_16_bits_wide_are_mentioned(self):
        log = self.answer(self.pair("fp8-tensor")[0])[2]
        self.assertIn("activation_scheme: activations in 8 bits have a scale for each row", log)
        log = self.answer(self.pair("gptq-4")[0])[2]
        self.assertEqual(log.count("\n"), 1, msg=log)
        self.assertIn("7 int4 tensors kept as stored", log)
        log = self.answer(self.pair("gptq-4")[0], *BF16)[2]
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

    def test_scales_of_kept_codes(self):
        fp8 = self.path("fp8-scales")
        tiny_quantised.write(fp8, fp8 + "-bf16", "fbgemm")
        path = os.path.join(fp8, "model.safetensors")
        with open(path, "rb") as file:
            content = bytearray(file.read())
        length = struct.unpack_from("<Q", content)[0]
        header = json.loads(content[8 : 8 + length])
        at = 8 + length + header["model.layers.0.mlp.up_proj.weight_scale"]["data_offsets"][0]
        struct.pack_into("<f", content, at + 4 * 3, math.nan)
        with open(path, "wb") as file:
            file.write(content)
        arguments = ["generate", "-m", fp8, "-p", "x", "-n", "1"]
        self.check_fails(1, "up_proj.weight_scale", "scale nan", "element [3, 0]", arguments=arguments)
        self.assertEqual(run("info", "-m", fp8).returncode, 0)  # reads no weights

    def test_a_module_that_the_configuration_leaves_out(self):
        self.change(modules_to_not_convert=["o_proj"])
        self.refuses("self_attn.o_proj", "stored quantised", "modules_to_not_convert")


if __name__ == "__main__":
    unittest.main()
