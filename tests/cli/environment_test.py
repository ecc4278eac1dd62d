"""Every flag has an environment variable; the flag wins."""

import json
import re
import unittest

from harness import Case, run


class Environment(Case):
    def generate(self, *arguments, env=None):
        result = run("generate", *self.with_model, "-p", "x", "--json", "--ignore-eos", *arguments, env=env)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return json.loads(result.stdout)

    def test_a_variable_stands_in_for_its_flag(self):
        out = self.generate("-s", "1", env={"SERVAL_N_PREDICT": "3"})
        self.assertEqual(len(out["responses"][0]["tokens"]), 3)

    def test_the_flag_wins(self):
        out = self.generate("-n", "2", "-s", "5", env={"SERVAL_N_PREDICT": "3", "SERVAL_SEED": "4"})
        self.assertEqual((len(out["responses"][0]["tokens"]), out["seed"]), (2, 5))

    def test_an_invalid_variable_is_named(self):
        for variable, value in [
            ("SERVAL_TEMP", "hot"),
            ("SERVAL_TEMP", "nan"),
            ("SERVAL_CTX_SIZE", "-3"),
            ("SERVAL_N_PREDICT", "10 "),
            ("SERVAL_BACKEND", "gpu"),
            ("SERVAL_JSON", "maybe"),
            ("SERVAL_LOG_LEVEL", "loud"),
        ]:
            with self.subTest(variable=variable, value=value):
                self.check_fails(
                    2,
                    variable,
                    value.strip(),
                    "see serval generate --help",
                    arguments=["generate", *self.with_model, "-p", "x"],
                    env={variable: value},
                )

    def test_an_invalid_variable_does_not_matter_where_the_flag_is_given(self):
        self.generate("-n", "1", "--temp", "1", env={"SERVAL_TEMP": "hot"})

    def test_an_empty_variable_counts_as_none(self):
        self.generate("-n", "1", env={"SERVAL_TEMP": "", "SERVAL_MODEL": ""})

    def test_switches_take_booleans(self):
        for value, is_json in [("1", True), ("true", True), ("off", False), ("0", False)]:
            result = run("generate", *self.with_model, "-p", "x", "-n", "1", env={"SERVAL_JSON": value})
            self.assertEqual(result.returncode, 0, msg=result.stderr)
            self.assertEqual(result.stdout.startswith(b"{"), is_json)

    def test_a_prompt_on_the_command_line_replaces_those_of_the_environment(self):
        out = self.generate("-n", "1", env={"SERVAL_PROMPT": "other", "SERVAL_FILE": "/nonexistent"})
        self.assertEqual([r["prompt"] for r in out["responses"]], ["x"])

    def test_the_model_and_the_prompt_may_come_from_the_environment(self):
        env = {"SERVAL_MODEL": self.model, "SERVAL_RANDOM_WEIGHTS": "1"}
        env |= {"SERVAL_PROMPT": "hello", "SERVAL_N_PREDICT": "1"}
        result = run("generate", env=env)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertTrue(result.stdout.startswith(b"hello"))

    def test_answers_deadline_and_ids_may_come_from_the_environment(self):
        env = {"SERVAL_ANSWERS": "2", "SERVAL_DEADLINE": "3600", "SERVAL_PROMPT_IDS": "97,98"}
        result = run("generate", *self.with_model, "-n", "1", "--json", env=env)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertEqual([r["prompt"] for r in json.loads(result.stdout)["responses"]], ["ab", "ab"])
        self.check_fails(
            2, "SERVAL_DEADLINE", "see serval generate --help",
            arguments=["generate", "-p", "x"], env={"SERVAL_DEADLINE": "soon"},
        )  # fmt: skip

    def test_the_help_names_a_variable_for_every_flag(self):
        for command in ["generate", "chat", "schedule", "bench", "info"]:
            text = run(command, "--help").stdout.decode()
            flags = set(re.findall(r"^ +(?:-\w\w? )?--([a-z-]+)", text, re.MULTILINE)) - {"help"}
            variables = set(re.findall(r"\[SERVAL_([A-Z_]+)\]", text))
            self.assertEqual({f.upper().replace("-", "_") for f in flags}, variables)


if __name__ == "__main__":
    unittest.main()
