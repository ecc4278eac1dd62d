"""--spec and -md: drafts of tokens do not change what is written, and are counted."""

import json
import pathlib
import re
import unittest

from harness import Case, run

BUNDLED = str(pathlib.Path(__file__).resolve().parents[2] / "assets" / "serval-stories")

PROMPT = "The bird said: come with me. The owl said: come with"
DRAFTS = re.compile(rb"drafts: (\d+) tokens in (\d+) passes, ([\d.]+) % accepted; ([\d.]+) tokens a pass with drafts")


class Speculation(Case):
    def generate(self, *flags, **options):
        arguments = ["generate", "--backend", "host", "-s", "1", "-p", PROMPT, "-n", "60", "--ignore-eos", *flags]
        result = run(*arguments, **options)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result

    def test_the_text_is_the_same(self):
        for temperature in ("0", "0.7"):
            plain = self.generate("--temp", temperature)
            drafted = self.generate("--temp", temperature, "--spec", "ngram", "--spec-ngram-min", "1")
            self.assertEqual(drafted.stdout, plain.stdout)
            self.assertIsNone(DRAFTS.search(plain.stderr))
            if temperature != "0":
                continue  # whether there are drafts depends on the text
            drafts, passes, _, length = DRAFTS.search(drafted.stderr).groups()
            self.assertGreater(int(drafts), 0)
            self.assertGreaterEqual(int(drafts), int(passes))
            self.assertGreaterEqual(float(length), 1)

    def test_none_is_the_default(self):
        self.assertIsNone(DRAFTS.search(self.generate("--spec", "none").stderr))

    def test_the_environment_can_ask_for_it(self):
        asked = self.generate("--temp", "0", env={"SERVAL_SPEC": "ngram", "SERVAL_SPEC_NGRAM_MIN": "1"})
        self.assertIsNotNone(DRAFTS.search(asked.stderr))

    def test_bench_accepts_drafts_by_chance(self):
        flags = ("--backend", "host", "-p", "0", "-n", "48", "-r", "1", "--spec", "ngram", "--draft-max", "3")
        all_right = run("bench", *flags, "--spec-accept-rate", "1")
        self.assertEqual(all_right.returncode, 0, msg=all_right.stderr)
        self.assertEqual(DRAFTS.search(all_right.stderr).group(3), b"100.0")
        none = run("bench", *flags, "--spec-accept-rate", "0")
        self.assertEqual(DRAFTS.search(none.stderr).group(4), b"1.00")

    def test_requests_of_bench_count_them(self):
        result = run("bench", "--backend", "host", "--requests", "3", "--input", "8", "--output", "24", "--json", "--spec", "ngram",
                     "--spec-accept-rate", "0.8")
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        figures = json.loads(result.stdout)
        self.assertGreater(figures["draft_tokens"], figures["accepted_tokens"])
        self.assertGreater(figures["acceptance_length"], 1)

    def test_a_model_drafts_where_one_is_named(self):
        for temperature in ("0", "0.7"):
            plain = self.generate("--temp", temperature)
            for flags in (["-md", BUNDLED], ["--model-draft", BUNDLED, "--spec", "model", "--draft-max", "3"]):
                drafted = self.generate("--temp", temperature, *flags)
                self.assertEqual(drafted.stdout, plain.stdout)
                # The model foresees itself.
                self.assertEqual(DRAFTS.search(drafted.stderr).group(3), b"100.0")

    def test_none_switches_off_the_model_that_the_environment_names(self):
        environment = {"SERVAL_MODEL_DRAFT": BUNDLED}
        self.assertIsNotNone(DRAFTS.search(self.generate("--temp", "0", env=environment).stderr))
        self.assertIsNone(DRAFTS.search(self.generate("--spec", "none", env=environment).stderr))

    def test_a_model_that_is_missing_or_has_other_tokens_is_refused(self):
        self.check_fails(1, "/nowhere", arguments=["generate", "-p", "A", "-md", "/nowhere/model"])
        self.check_fails(
            1, "draft model", "its vocabulary has 128256 tokens", arguments=["info", "-md", "llama-3.2-1b"])

    def test_wrong_flags_are_refused(self):
        refused = lambda *words: self.check_fails(2, *words[0], arguments=["generate", "-p", "A", *words[1:]])
        refused(["--spec", "eagle", "none", "ngram"], "--spec", "eagle")
        refused(["needs a draft model", "--model-draft"], "--spec", "model")
        refused(["--model-draft", "ngram"], "--spec", "ngram", "-md", BUNDLED)
        refused(["--draft-p-min", "1.5", "0 to 1"], "-md", BUNDLED, "--draft-p-min", "1.5")
        refused(["--draft-max", "16", "15"], "--spec", "ngram", "--draft-max", "16")
        refused(["--draft-min", "5", "1 to 4"], "--spec", "ngram", "--draft-max", "4", "--draft-min", "5")
        refused(["--spec-ngram-max", "17", "16"], "--spec", "ngram", "--spec-ngram-max", "17")
        refused(["--spec-ngram-min", "9", "1 to 4"], "--spec", "ngram", "--spec-ngram-min", "9")
        self.check_fails(2, "--spec-accept-rate", "--spec", arguments=["bench", "--spec-accept-rate", "0.5"])
        self.check_fails(2, "--spec", "--depth", arguments=["bench", "--spec", "ngram", "-d", "8"])


if __name__ == "__main__":
    unittest.main()
