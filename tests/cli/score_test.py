"""serval score."""

import json
import math
import unittest

from harness import Case, run

STORY = "Once upon a time, there was a small boy who lived in the banana grove. He liked rainy days."


class Score(Case):
    def score(self, *lines, flags=()):
        stdin = "\n".join(json.dumps(line) for line in lines).encode()
        result = run("score", "-f", "-", *flags, stdin=stdin)
        self.assertEqual(result.returncode, 0, msg=result.stderr.decode())
        self.assertIn(b"perplexity", result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def generate(self, prompt, *flags):
        out = run("generate", "-p", prompt, "-n", "20", "--json", *flags)
        return json.loads(out.stdout)["responses"][0]

    def test_a_continuation_gets_what_it_got_when_it_was_generated(self):
        for flags in (["--temp", "0"], ["-s", "3"]):
            answer = self.generate("The fox", *flags)
            prompt = json.loads(run("tokenize", "-p", "The fox", "--json").stdout)["tokens"]
            whole = json.loads(run("tokenize", "-p", "The fox" + answer["text"], "--json").stdout)["tokens"]
            self.assertEqual(whole, prompt + answer["tokens"], "the text becomes the same tokens")
            (scored,) = self.score({"prompt": "The fox", "continuation": answer["text"]}, flags=["--tokens"])
            self.assertEqual(scored["token_ids"], answer["tokens"])
            self.assertEqual(scored["log_probabilities"], answer["log_probabilities"])
            self.assertEqual(scored["tokens"], len(answer["tokens"]))
            self.assertAlmostEqual(scored["log_probability"], math.fsum(answer["log_probabilities"]), places=9)
            self.assertEqual(scored["is_greedy"], "0" in flags)

    def test_a_text_is_its_parts(self):
        first = STORY[:30].rsplit(" ", 1)[0]
        rest = STORY[len(first):]
        text, start, end = self.score({"text": STORY}, {"text": first}, {"prompt": first, "continuation": rest})
        self.assertEqual(text["tokens"], start["tokens"] + end["tokens"])
        self.assertAlmostEqual(text["log_probability"], start["log_probability"] + end["log_probability"], places=4)
        self.assertAlmostEqual(text["perplexity"], math.exp(-text["log_probability"] / text["tokens"]))
        self.assertEqual([line["index"] for line in (text, start, end)], [0, 1, 2])

    def test_white_space_at_the_end_of_a_prompt_belongs_to_the_continuation(self):
        one, other = self.score({"prompt": "The fox ", "continuation": "ran"}, {"prompt": "The fox", "continuation": " ran"})
        self.assertEqual(one["log_probability"], other["log_probability"])

    def test_a_text_without_anything_before_it_begins_after_bos(self):
        whole, without, after = self.score({"text": "The fox"}, {"prompt": "", "continuation": "The fox"}, {"prompt": "The", "continuation": " fox"})
        self.assertEqual(whole["log_probability"], without["log_probability"])
        self.assertEqual(whole["tokens"], after["tokens"] + 1)
        (bare,) = self.score({"text": "The fox"}, flags=["--no-bos"])
        self.assertEqual(bare["tokens"], after["tokens"], "its first token has nothing before it")

    def test_a_long_text_is_read_in_windows(self):
        """Each token is scored once; only those after the first window have less before them."""
        short = self.score({"text": STORY * 4}, flags=["-c", "64", "--tokens"])[0]
        long = self.score({"text": STORY * 4}, flags=["--tokens"])[0]
        self.assertEqual(short["token_ids"], long["token_ids"])
        self.assertEqual(short["log_probabilities"][:62], long["log_probabilities"][:62])
        self.assertNotEqual(short["log_probabilities"], long["log_probabilities"])

    def test_results_do_not_depend_on_the_passes(self):
        lines = [{"id": i, "text": STORY[i:]} for i in range(0, 60, 4)]
        expected = self.score(*lines)
        for flags in (["--max-sequences", "1"], ["--max-batch-tokens", "64", "--max-sequences", "5"]):
            self.assertEqual(self.score(*lines, flags=flags), expected)
        self.assertEqual([line["id"] for line in expected], list(range(0, 60, 4)))

    def test_wrong_lines_are_named(self):
        for line, needle in [
            ("{", "stdin: line 2: byte"),
            ("[]", "line 2: expected an object"),
            ("{}", "expected text, or prompt and continuation"),
            ('{"prompt": "a"}', "expected text, or prompt and continuation"),
            ('{"text": ""}', "text: empty"),
            ('{"text": 7}', "text: 7; expected a text"),
            ('{"text": "a", "prompt": "b"}', "text: not with prompt"),
            ('{"text": "a", "txet": "b"}', '"txet": unknown'),
            ('{"text": "a", "id": []}', "id: []"),
        ]:
            with self.subTest(line=line):
                self.check_fails(2, needle, arguments=["score", "-f", "-"], stdin=b'{"text": "ok"}\n' + line.encode())
        self.check_fails(2, "stdin: no lines", arguments=["score", "-f", "-"], stdin=b"\n \n")
        long = json.dumps({"prompt": STORY * 9, "continuation": " x"}).encode()
        self.check_fails(2, "line 1: prompt and continuation: ", "limit: 63 (context 64)", arguments=["score", "-f", "-", "-c", "64"], stdin=long)
        self.check_fails(2, "-f: required", arguments=["score"])
        self.check_fails(1, "nowhere.jsonl", arguments=["score", "-f", "nowhere.jsonl"])


if __name__ == "__main__":
    unittest.main()
