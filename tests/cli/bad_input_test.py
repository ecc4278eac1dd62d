"""Damaged, inconsistent and hostile input gives one line that names the file, the exit code, and nothing on stdout."""

import json
import os
import shutil
import struct
import unittest

import tiny_model
from harness import Case, run


class BadInput(Case):
    """Each test breaks one thing in a valid model."""

    def setUp(self):
        self.broken = self.path(self.id().rsplit(".", 1)[-1])
        tiny_model.write(self.broken)

    def file(self, name):
        return os.path.join(self.broken, name)

    def refuses(self, *needles, code=1, arguments=()):
        generate = ["generate", "-m", self.broken, "-p", "x", "-n", "1", *arguments]
        return self.check_fails(code, *needles, arguments=generate)

    def write_weights(self, header, data_bytes):
        with open(self.file("model.safetensors"), "wb") as file:
            file.write(tiny_model.safetensors(header, data_bytes))

    def rewrite_json(self, name, change):
        with open(self.file(name), encoding="utf-8") as file:
            value = json.load(file)
        change(value)
        tiny_model.write_json(self.file(name), value)


class Models(BadInput):
    def test_the_model_that_the_others_break_is_whole(self):
        result = run("generate", "-m", self.broken, "-p", "x", "-n", "1", "--ignore-eos")
        self.assertEqual(result.returncode, 0, msg=result.stderr)

    def test_a_missing_directory(self):
        shutil.rmtree(self.broken)
        self.refuses(self.broken)

    def test_a_file_where_a_directory_should_be(self):
        shutil.rmtree(self.broken)
        with open(self.broken, "w", encoding="utf-8") as file:
            file.write("{}")
        self.refuses(self.broken, "neither a directory nor a GGUF file")

    def test_a_directory_without_a_config(self):
        os.remove(self.file("config.json"))
        self.refuses("config.json")

    def test_a_directory_without_weights(self):
        os.remove(self.file("model.safetensors"))
        self.refuses("safetensors")

    def test_a_directory_without_a_tokenizer(self):
        os.remove(self.file("tokenizer.json"))
        self.refuses("tokenizer.json")

    @unittest.skipIf(os.geteuid() == 0, "root can read everything")
    def test_an_unreadable_file(self):
        os.chmod(self.file("config.json"), 0)
        self.refuses("config.json")

    def test_a_preset_without_random_weights(self):
        shutil.rmtree(self.broken)
        self.check_fails(2, "random", arguments=["generate", "-m", "llama-3.2-1b", "-p", "x"])


class Configs(BadInput):
    def change(self, **values):
        self.rewrite_json("config.json", lambda config: config.update(values))

    def test_an_unknown_architecture(self):
        self.change(architectures=["BloomForCausalLM"], model_type="bloom")
        self.refuses("config.json", "bloom")

    def test_dimensions_out_of_range(self):
        for field, value in [
            ("hidden_size", -64),
            ("hidden_size", 1 << 40),
            ("num_hidden_layers", 10**9),
            ("num_key_value_heads", 0),
            ("vocab_size", 1 << 50),
            ("head_dim", 63),
            ("rms_norm_eps", "small"),
        ]:
            with self.subTest(field=field, value=value):
                tiny_model.write(self.broken)
                self.change(**{field: value})
                self.refuses("config.json", field)

    def test_keys_that_ask_for_another_forward_pass(self):
        for field, value in [("sliding_window", 64), ("logits_scaling", 8.0), ("num_experts", 8)]:
            with self.subTest(field=field):
                tiny_model.write(self.broken)
                self.change(**{field: value})
                self.refuses("config.json: " + field)

    def test_recommended_sampling_out_of_range_names_its_file(self):
        for field, value in [("top_p", 0), ("repetition_penalty", 11)]:
            with self.subTest(field=field):
                with open(self.file("generation_config.json"), "w", encoding="utf-8") as file:
                    json.dump({field: value}, file)
                self.refuses(f"generation_config.json: {field}: found {value}; limit: above 0, up to")

    def test_a_generation_config_that_is_a_link_to_nowhere(self):
        os.symlink("nowhere", self.file("generation_config.json"))
        self.refuses("generation_config.json: no such file")

    def test_text_that_is_no_json(self):
        for text in [b"", b"{", b"[1]", b"\xff\xfe", b'{"hidden_size": 1, "hidden_size": 2}', b"[" * 100000]:
            with self.subTest(text=text[:20]):
                with open(self.file("config.json"), "wb") as file:
                    file.write(text)
                self.refuses("config.json")


class Weights(BadInput):
    def setUp(self):
        super().setUp()
        self.header, self.data_bytes = tiny_model.safetensors_header(tiny_model.config())

    def test_a_truncated_file(self):
        size = os.path.getsize(self.file("model.safetensors"))
        for length in [0, 4, 100, size - 1]:
            with self.subTest(length=length):
                self.write_weights(self.header, self.data_bytes)
                os.truncate(self.file("model.safetensors"), length)
                self.refuses("model.safetensors")

    def test_a_header_length_that_lies(self):
        for length in [0, 1 << 20, 101_000_000, (1 << 63) - 1, (1 << 64) - 1]:
            with self.subTest(length=length):
                with open(self.file("model.safetensors"), "r+b") as file:
                    file.write(struct.pack("<Q", length))
                self.refuses("model.safetensors")

    def test_a_shape_that_does_not_fit_the_config(self):
        entry = self.header["model.norm.weight"]
        entry["shape"] = [32, 2]
        self.write_weights(self.header, self.data_bytes)
        self.refuses("model.safetensors", "model.norm.weight")

    def test_a_shape_that_does_not_fit_its_bytes(self):
        self.header["model.norm.weight"]["shape"] = [1 << 40, 1 << 40]
        self.write_weights(self.header, self.data_bytes)
        self.refuses("model.safetensors", "model.norm.weight")

    def test_offsets_out_of_the_file(self):
        self.header["model.norm.weight"]["data_offsets"] = [1 << 50, (1 << 50) + 128]
        self.write_weights(self.header, self.data_bytes)
        self.refuses("model.safetensors", "model.norm.weight")

    def test_tensors_that_overlap(self):
        first = self.header["model.layers.0.input_layernorm.weight"]
        self.header["model.norm.weight"]["data_offsets"] = first["data_offsets"]
        self.write_weights(self.header, self.data_bytes)
        self.refuses("model.safetensors")

    def test_a_missing_tensor(self):
        del self.header["model.norm.weight"]
        last = self.header["model.layers.0.mlp.down_proj.weight"]["data_offsets"][1]
        self.write_weights(self.header, last)
        self.refuses("model.safetensors", "model.norm.weight")

    def test_an_unknown_type(self):
        self.header["model.norm.weight"]["dtype"] = "F4"
        self.write_weights(self.header, self.data_bytes)
        self.refuses("model.safetensors", "model.norm.weight")

    def spoil(self, tensor, index, bits):
        begin = self.header[tensor]["data_offsets"][0] + len(json.dumps(self.header).encode()) + 8
        with open(self.file("model.safetensors"), "r+b") as file:
            file.seek(begin + 2 * index)
            file.write(struct.pack("<H", bits))

    def test_weights_that_are_not_finite(self):
        for bits, name in [(0x7FC0, "nan"), (0x7F80, "inf"), (0xFF80, "-inf")]:
            with self.subTest(value=name):
                self.spoil("model.norm.weight", 3, bits)
                where = f'model.safetensors: tensor "model.norm.weight": element [3] is {name}'
                self.refuses(where, "--allow-nonfinite")

    def test_logits_that_are_not_finite(self):
        self.spoil("model.norm.weight", 3, 0x7FC0)
        self.refuses("token 1 of the text: the model's logits are NaN", arguments=["--allow-nonfinite", "--no-echo"])
        prompts = ["-p", "xy", "-p", "x"]
        result = run("generate", "-m", self.broken, "--allow-nonfinite", "--json", *prompts)
        self.assertEqual(result.returncode, 1)
        for response, tokens in zip(json.loads(result.stdout)["responses"], [2, 1]):
            self.assertEqual((response["finish_reason"], response["tokens"]), ("error", []))
            self.assertIn(f"token {tokens} of the text: the model's logits are NaN", response["error"])
        self.assertIn(b"error: prompt 2 of 2: token 1 of the text", result.stderr)

    def test_a_name_that_comes_twice(self):
        text = json.dumps(self.header)
        text = text[:-1] + ', "model.norm.weight": ' + json.dumps(self.header["model.norm.weight"]) + "}"
        with open(self.file("model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text.encode() + bytes(self.data_bytes))
        self.refuses("model.safetensors")


class Tokenizers(BadInput):
    def test_a_merge_of_unknown_tokens(self):
        self.rewrite_json("tokenizer.json", lambda t: t["model"].update(merges=["xx yy"]))
        self.refuses("tokenizer.json")

    def test_an_unknown_model(self):
        self.rewrite_json("tokenizer.json", lambda t: t["model"].update(type="Unigram"))
        self.refuses("tokenizer.json")

    def test_a_broken_chat_template_names_its_line(self):
        self.rewrite_json("tokenizer_config.json", lambda t: t.update(chat_template="a\n{{ messages"))
        self.check_fails(1, "tokenizer_config.json: chat_template: line 2:", arguments=["chat", "-m", self.broken])

    def test_no_chat_template_names_the_choices(self):
        self.rewrite_json("tokenizer_config.json", lambda t: t.pop("chat_template"))
        self.check_fails(1, "--chat-template", "llama3", "chatml", "FILE", arguments=["chat", "-m", self.broken])


class Prompts(Case):
    def test_a_prompt_longer_than_the_context(self):
        for prompts in [["-p", "x" * 100], ["-p", "short", "-p", "x" * 100]]:
            self.check_fails(
                2, "100 tokens", "limit: 31", arguments=["generate", *self.with_model, "-c", "32", *prompts]
            )

    def test_a_context_longer_than_the_model_allows(self):
        arguments = ["generate", *self.with_model, "-p", "x"]
        limit = "limit: 2 to 262144 (the model's maximum)"
        self.check_fails(2, f"error: --ctx-size: 1000000; {limit}", arguments=[*arguments, "-c", "1000000"])
        variable = {"SERVAL_CTX_SIZE": "1000000"}
        self.check_fails(2, f"error: SERVAL_CTX_SIZE: 1000000; {limit}", arguments=arguments, env=variable)

    def test_long_names_lose_their_middle(self):
        name = "a" * 150 + "é" * 500 + "z" * 150
        arguments = ["generate", "-m", name, "-p", "x"]
        result = self.check_fails(1, f"model {'a' * 100}…{'z' * 99}: neither", arguments=arguments)
        self.assertNotIn("a" * 101, result.stderr.decode())

    def test_prompt_files_that_cannot_be_read(self):
        self.check_fails(1, "/nonexistent", arguments=["generate", *self.with_model, "-f", "/nonexistent"])
        self.check_fails(1, self.directory.name, arguments=["generate", *self.with_model, "-f", self.directory.name])

    def test_a_prompt_file_without_prompts(self):
        self.check_fails(1, "no prompt", arguments=["generate", *self.with_model, "-f", "-"], stdin=b"\n\r\n\n")

    def test_an_endless_prompt_file(self):
        self.check_fails(1, "/dev/zero", "16777216", arguments=["generate", *self.with_model, "-f", "/dev/zero"])

    def test_too_many_prompts(self):
        self.check_fails(2, "4096", arguments=["generate", *self.with_model, "-f", "-"], stdin=b"x\n" * 5000)

    def test_names_with_control_characters_stay_on_one_line(self):
        self.check_fails(1, "\\x0a", arguments=["generate", "-m", "no\nsuch\x1b[2Jmodel", "-p", "x"])


class Memory(BadInput):
    def test_more_weights_than_memory(self):
        """Each dimension is within its limit, but together they need hundreds of terabytes."""
        os.remove(self.file("model.safetensors"))
        huge = {"hidden_size": 1 << 16, "intermediate_size": 1 << 18, "num_hidden_layers": 1000}
        self.rewrite_json("config.json", lambda config: config.update(huge))
        self.refuses("GB", code=3, arguments=["--random-weights", "1"])


if __name__ == "__main__":
    unittest.main()
