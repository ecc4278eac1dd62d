"""serval info: facts without loading weights."""

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
