"""serval quantize: what it writes answers as its source does with --weights, is whole or absent, and takes memory for one matrix."""

import json
import os
import resource
import signal
import struct
import subprocess
import time
import unittest

import tiny_model
import tiny_quantised
from harness import PATIENCE, PROGRAM, Case, default_signals, environment, run, start

PROMPT = "The quick brown fox"
FORMATS = (
    ("fp8", "bf16"),
    ("fp8", "fp8"),
    ("bf16", "fp8"),
    ("int4:32", "bf16"),
    ("int4:64", "int4:32"),
    ("int4:32", "fp8"),
)
SEED = ("--random-weights", "1")


def headers(directory):
    """The entries of all safetensors files, and the files' names."""
    tensors, files = {}, {}
    for name in os.listdir(directory):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(directory, name), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        assert header.pop("__metadata__") == {"format": "pt"}
        tensors |= header
        files |= dict.fromkeys(header, name)
    return tensors, files


class Quantize(Case):
    def quantize(self, target, *flags):
        result = run("quantize", "-o", self.path(target), *flags)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return self.path(target)

    def answer(self, *flags):
        result = run("generate", "-p", PROMPT, "-n", "12", "--temp", "0", "--ignore-eos", "--json", *flags)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertNotIn(b"dequantised", result.stderr)
        response = json.loads(result.stdout)["responses"][0]
        return response["tokens"], response["log_probabilities"]

    def config(self, directory):
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            return json.load(file)

    def check_nothing_is_left(self, target):
        self.assertFalse(os.path.exists(self.path(target)))
        self.assertEqual([name for name in os.listdir(self.directory.name) if name.endswith(".tmp")], [])

    def test_it_answers_as_its_source_with_these_types(self):
        answers = set()
        for layers, head in FORMATS:
            with self.subTest(layers=layers, head=head):
                types = ("--weights", layers, "--lm-head", head)
                out = self.quantize(f"out-{layers}-{head}", *self.with_model, *types)
                expected = self.answer(*self.with_model, *types)
                self.assertEqual(self.answer("-m", out), expected)
                answers.add(tuple(expected[1]))
        self.assertEqual(len(answers), len(FORMATS))

    def test_the_bundled_model_answers_the_same(self):
        for types in (("--weights", "fp8"), ("--weights", "int4", "--lm-head", "fp8")):
            with self.subTest(types=types):
                out = self.quantize("stories-" + types[1], *types)
                self.assertEqual(self.answer("-m", out), self.answer(*types))

    def test_the_default_is_fp8(self):
        out = self.quantize("default", *self.with_model)
        facts = json.loads(run("info", "-m", out, "--json").stdout)["model"]
        self.assertEqual(facts["weight_format"], "compressed-tensors: e4m3 with a scale per row")

    def test_the_configuration_has_the_width_of_activations(self):
        source = self.path("whole-slabs")
        tiny_model.write(source, hidden_size=128)

        def inputs(name, *flags):
            out = self.quantize(name, "-m", source, "--random-weights", "1", *flags)
            return self.config(out)["quantization_config"]["config_groups"]["group_0"]["input_activations"]

        e4m3 = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
        self.assertEqual(inputs("activations-8"), e4m3)
        self.assertIsNone(inputs("activations-16", "--activations", "16bit"))

    def test_the_configuration_describes_the_tensors(self):
        out = self.quantize("described", *self.with_model, "--weights", "int4:32")
        scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False, "dynamic": False}
        group = {"targets": ["Linear"], "weights": scheme, "input_activations": None, "output_activations": None}
        expected = tiny_model.config() | {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "quantization_status": "compressed",
                "config_groups": {"group_0": group | {"format": "pack-quantized"}},
                "ignore": ["lm_head"],
                "kv_cache_scheme": None,
                "dequantize": True,
            }
        }
        self.assertEqual(self.config(out), expected)
        tensors, _ = headers(out)
        up = {name.rsplit(".", 1)[-1]: (t["dtype"], t["shape"]) for name, t in tensors.items() if "up_proj" in name}
        self.assertEqual(
            up,
            {
                "weight_packed": ("I32", [128, 8]),
                "weight_scale": ("F16", [128, 2]),
                "weight_shape": ("I64", [2]),
                "weight_zero_point": ("I32", [16, 2]),
            },
        )

    def test_a_head_of_another_format_has_a_group_of_its_own(self):
        out = self.quantize("mixed", *self.with_model, "--weights", "int4:32", "--lm-head", "fp8")
        config = self.config(out)
        self.assertEqual(config["quantization_config"]["format"], "mixed-precision")
        groups = config["quantization_config"]["config_groups"].values()
        self.assertEqual([(g["targets"], g["format"]) for g in groups], [(["Linear"], "pack-quantized"), (["re:.*lm_head"], "float-quantized")])
        self.assertEqual(config["quantization_config"]["ignore"], [])
        self.assertIs(config["tie_word_embeddings"], False)
        tensors, _ = headers(out)
        self.assertEqual(tensors["lm_head.weight"]["dtype"], "F8_E4M3")
        self.assertEqual(tensors["model.embed_tokens.weight"]["dtype"], "BF16")

    def test_files_are_not_larger_than_asked(self):
        out = self.quantize("sharded", *self.with_model, "--shard-size", "20K")
        tensors, files = headers(out)
        with open(os.path.join(out, "model.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        self.assertEqual(index["weight_map"], files)
        self.assertEqual(index["metadata"]["total_size"], sum(t["data_offsets"][1] - t["data_offsets"][0] for t in tensors.values()))
        sizes = {name: os.path.getsize(os.path.join(out, name)) for name in set(files.values())}
        self.assertGreater(len(sizes), 3)
        for name, size in sizes.items():
            if size > 20 << 10:
                self.assertEqual(list(files.values()).count(name), 1, msg=name)
        self.assertEqual(self.answer("-m", out), self.answer(*self.with_model, "--weights", "fp8"))

    def test_codes_of_other_checkpoints_are_kept(self):
        for name, types in (("gptq-4", "int4:32"), ("awq", "int4:32"), ("fp8-tensor", "fp8"), ("gptq-8-act-order", "fp8")):
            with self.subTest(format=name):
                source = self.path(name)
                tiny_quantised.write(source, source + "-bf16", name)
                out = self.quantize(name + "-again", "-m", source, "--weights", types)
                self.assertNotIn("quantize_config.json", os.listdir(out))
                self.assertEqual(self.answer("-m", out), self.answer("-m", source, "--weights", types))

    def test_json_says_what_was_written(self):
        target = self.path("facts")
        result = run("quantize", "-o", target, *self.with_model, "--json")
        tensors, _ = headers(target)
        written = max(t["data_offsets"][1] for t in tensors.values())
        self.assertEqual(json.loads(result.stdout), {"directory": target, "bytes": written, "files": 1})
        self.assertIn(b"1 file\n", run("quantize", "-o", self.path("facts-in-words"), *self.with_model).stdout)

    def test_an_empty_directory_is_filled_and_another_refused(self):
        os.mkdir(self.path("empty"))
        self.quantize("empty", *self.with_model)
        before = sorted(os.listdir(self.path("empty")))
        self.check_fails(1, "empty", "is not empty", arguments=["quantize", "-o", self.path("empty"), *self.with_model])
        self.assertEqual(sorted(os.listdir(self.path("empty"))), before)
        self.check_fails(1, "config.json", "not a directory", arguments=["quantize", "-o", os.path.join(self.model, "config.json"), *self.with_model])

    def test_bad_input_is_one_line(self):
        def refused(code, *needles, flags, target="refused"):
            self.check_fails(code, *needles, arguments=["quantize", "-o", self.path(target), *flags])
            self.check_nothing_is_left(target)

        self.check_fails(2, "-o: required", arguments=["quantize", *self.with_model])
        refused(2, "bf16 for both", flags=(*self.with_model, "--weights", "bf16"))
        refused(2, "--weights", "fp8", "int4:32", flags=(*self.with_model, "--weights", "auto"))
        refused(2, "--lm-head", "fp9", flags=(*self.with_model, "--lm-head", "fp9"))
        refused(2, "q_proj.weight has 64 columns", "a multiple of 128", flags=(*self.with_model, "--weights", "int4"))
        for size in ("0", "50%", "big"):
            refused(2, "--shard-size", size, flags=(*self.with_model, "--shard-size", size))
        refused(1, "llama-3.2-1b", "a preset has no weights", flags=("-m", "llama-3.2-1b", *SEED))
        refused(1, "neither model.safetensors nor", flags=("-m", self.model))
        refused(1, "no/where", "No such file", flags=self.with_model, target="no/where")

    def test_gguf_files_are_refused(self):
        import tiny_gguf

        path = self.path("tiny.gguf")
        tiny_gguf.write(path)
        self.check_fails(1, "tiny.gguf", "only a Hugging Face directory", arguments=["quantize", "-m", path, "-o", self.path("of-gguf")])

    def test_a_full_disk_is_one_line_and_nothing_is_left(self):
        def limit():
            default_signals()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))

        command = [PROGRAM, "quantize", "-o", self.path("full"), *self.with_model]
        result = subprocess.run(command, env=environment(), preexec_fn=limit, capture_output=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count(b"\n"), 1, msg=result.stderr)
        self.assertIn(b"model.safetensors: cannot be written: File too large", result.stderr)
        self.check_nothing_is_left("full")


class Large(Case):
    """Models that take a while."""

    def large(self, layers):
        path = self.path(f"large-{layers}")
        tiny_model.write(path, weights=False, hidden_size=512, intermediate_size=2048, num_hidden_layers=layers)
        return ("-m", path, *SEED)

    def test_memory_is_that_of_a_matrix(self):
        # With random weights, everything that is read is in memory that is counted.
        peaks = []
        for layers in (1, 16):
            process = start("quantize", "-o", self.path(f"peak-{layers}"), *self.large(layers), stdout=subprocess.DEVNULL, env={"ASAN_OPTIONS": "quarantine_size_mb=1"})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks.append(usage.ru_maxrss << 10)
        written = os.path.getsize(self.path("peak-16/model.safetensors")) - os.path.getsize(self.path("peak-1/model.safetensors"))
        self.assertGreater(written, 40 << 20)
        self.assertLess(peaks[1] - peaks[0], written // 2)

    def test_an_interrupted_run_leaves_nothing(self):
        arguments = ("quantize", "-o", self.path("interrupted"), *self.large(64), "--weights", "int4:32")
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(signal=number):
                process = start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                end = time.monotonic() + PATIENCE
                while not self.unfinished():
                    self.assertIsNone(process.poll())
                    self.assertLess(time.monotonic(), end)
                process.send_signal(number)
                message = process.communicate(timeout=PATIENCE)[1]
                self.assertEqual(process.returncode, code, msg=message)
                self.assertFalse(os.path.exists(self.path("interrupted")))
                self.assertEqual(bool(self.unfinished()), number == signal.SIGKILL)

    def unfinished(self):
        return [name for name in os.listdir(self.directory.name) if name.endswith(".tmp")]


if __name__ == "__main__":
    unittest.main()
