"""serval info: facts about models and machines, without loading weights."""

import json
import unittest

import schema
from harness import Case, run


class Info(Case):
    def facts(self, *arguments):
        result = run("info", "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        facts = json.loads(result.stdout)
        schema.check(facts, schema.load("info.schema.json"))
        return facts

    def test_a_preset_is_described_without_weights(self):
        model = self.facts("-m", "llama-3.2-1b")["model"]
        self.assertEqual(model["name"], "llama-3.2-1b")
        self.assertEqual(model["parameters"], 1_235_814_400)
        self.assertEqual(model["kv_bytes_per_token"], 2 * 2 * 16 * 8 * 64)

    def test_the_split_over_gpus_is_described(self):
        rank = self.facts("-m", "llama-3.1-70b", "--gpus", "4")["rank"]
        self.assertEqual((rank["gpus"], rank["heads"], rank["kv_heads"], rank["slice_columns"]), (4, 16, 2, 2048))
        # Each GPU has a quarter of the weights and all norms.
        whole = 2 * 161 * 8192
        all_weights = self.facts("-m", "llama-3.1-70b")["model"]["weight_bytes"]
        self.assertEqual(rank["weight_bytes"], (all_weights - whole) // 4 + whole)
        self.assertEqual(rank["kv_bytes_per_token"] * 4, 2 * 2 * 80 * 8 * 128)
        self.assertGreater(rank["kv_tokens_that_fit"], 0)

    def test_kv_heads_that_are_fewer_than_gpus_are_on_several(self):
        rank = self.facts("-m", "qwen2.5-0.5b", "--gpus", "2")["rank"]
        self.assertEqual((rank["heads"], rank["kv_heads"], rank["ranks_of_a_kv_head"]), (7, 1, 1))
        rank = self.facts("-m", "llama-3.2-1b", "--gpus", "8")["rank"]
        self.assertEqual((rank["heads"], rank["kv_heads"], rank["ranks_of_a_kv_head"]), (4, 1, 1))

    def test_a_size_of_the_kv_cache_becomes_tokens(self):
        # The bundled model needs 3,584 bytes per token, in whole blocks of 64 tokens.
        self.assertEqual(self.facts("--kv-cache-memory", "16M")["model"]["kv_cache_tokens"], 73 * 64)
        self.assertEqual(self.facts("--kv-cache-memory", "48G")["model"]["kv_cache_tokens"], (48 << 30) // (64 * 3584) * 64)
        model = self.facts("--kv-cache-memory", "50%")["model"]
        # The free memory may change between its two readings.
        share = model["kv_cache_tokens"] / model["kv_tokens_that_fit"]
        self.assertTrue(0.4 < share < 0.6, msg=model)
        self.assertNotIn("kv_cache_tokens", self.facts()["model"])

    def test_a_size_of_the_kv_cache_is_that_of_each_gpu(self):
        rank = self.facts("-m", "llama-3.1-70b", "--gpus", "4", "--kv-cache-memory", "8G")["rank"]
        self.assertEqual(rank["kv_cache_tokens"], (8 << 30) // (64 * rank["kv_bytes_per_token"]) * 64)

    def test_a_draft_model_takes_its_part_of_the_memory(self):
        bundled = self.facts()["model"]["directory"]
        facts = self.facts("-md", bundled, "--kv-cache-memory", "16M")
        self.assertEqual(facts["draft_model"]["weight_bytes"], facts["model"]["weight_bytes"])
        self.assertEqual(facts["draft_model"]["kv_bytes_per_token"], 3584)
        self.assertEqual(facts["model"]["kv_cache_tokens"], 36 * 64)
        self.assertLess(facts["draft_model"]["kv_tokens_that_fit"], facts["model"]["kv_tokens_that_fit"])

    def test_a_kv_cache_that_holds_no_context_is_refused(self):
        self.check_fails(3, "kv_cache_memory: 1048576 bytes; limit: 7340032 or more", arguments=["info", "--kv-cache-memory", "1M"])

    def test_what_cannot_be_split_is_refused_with_the_number(self):
        for arguments, line in [
            (["-m", "smollm2-135m", "--gpus", "2"], b"num_attention_heads: 9; expected a multiple of 2 "),
            (["-m", "qwen2.5-7b", "--gpus", "8"], b"num_attention_heads: 28; expected a multiple of 8 "),
            (["--gpus", "3"], b"--gpus: '3' is 3 GPUs; expected 1, 2, 4 or 8"),
            (["--gpus", "0,1,2"], b"--gpus: '0,1,2' is 3 GPUs; expected 1, 2, 4 or 8"),
            (["--gpus", "0,-1"], b"--gpus"),
            (["--gpus", "9"], b"--gpus"),
        ]:
            result = run("info", *arguments)
            self.assertEqual(result.returncode, 2, msg=arguments)
            self.assertEqual(result.stderr.count(b"\n"), 1, msg=result.stderr)
            self.assertIn(line, result.stderr)

    def test_the_version_of_the_unicode_tables_is_there(self):
        self.assertRegex(self.facts()["serval"]["unicode"], r"^\d+\.\d+\.\d+$")

    def test_a_directory_is_described(self):
        model = self.facts("-m", self.model)["model"]
        self.assertEqual(model["directory"], self.model)
        self.assertEqual((model["layers"], model["heads"], model["kv_heads"]), (1, 2, 1))
        self.assertEqual(model["chat_template"], "tokenizer_config.json")

    def test_the_bundled_model_is_the_default(self):
        self.assertTrue(self.facts()["model"]["directory"])

    def test_the_text_has_the_same_facts(self):
        text = run("info", "-m", self.model).stdout.decode()
        for section, values in self.facts("-m", self.model).items():
            self.assertIn(f"{section}\n", text)
            for key in values:
                self.assertIn(f"  {key} ", text)


if __name__ == "__main__":
    unittest.main()
