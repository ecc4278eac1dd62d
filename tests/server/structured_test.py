"""Answers to requests with a grammar, an expression or a list of texts are such texts, regardless of the model."""

import json
import re
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypi
from gbnf import Gbnf
from serving import Case
from harness import run

pypi.fetch()

import jsonschema  # noqa: E402
import openai  # noqa: E402

GRAMMARS = {path.stem: path.read_text() for path in sorted(Path(__file__).parents[1].glob("data/grammar/gbnf/*.gbnf"))}
WARM = {"temperature": 1.5, "top_p": 1, "max_tokens": 200}  # makes the model's own text improbable
PATTERNS = [r"[A-Z][a-z]{2,8}( [A-Z]\.)?", r"\d{4}-(0[1-9]|1[0-2])-\d{2}", r"(yes|no)(, (please|thanks))?!", r"[^a-z]{3,9}"]
SCHEMA = {"type": "object", "properties": {n: {"type": "integer"} for n in "ba"}, "required": ["b", "a"]}
MESSAGES = [{"role": "user", "content": "Tell me a story."}]


class StructuredOutputs(Case):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)
        self.model = self.client.models.list().data[0].id

    def complete(self, extra, prompt="Once upon a time", **parameters):
        settings = {**WARM, **parameters}
        body = {"top_k": 0, "min_p": 0, **extra}
        return self.client.completions.create(model=self.model, prompt=prompt, extra_body=body, **settings)

    def chat(self, extra, **parameters):
        settings = {**WARM, **parameters}
        return self.client.chat.completions.create(model=self.model, messages=MESSAGES, extra_body=extra, **settings)

    def test_every_answer_follows_its_grammar(self):
        def ask(job):
            name, seed = job
            return name, self.complete({"guided_grammar": GRAMMARS[name]}, seed=seed, n=2).choices

        complete = dict.fromkeys(GRAMMARS, 0)
        self.assertGreaterEqual(len(GRAMMARS), 7)
        references = {name: Gbnf(text) for name, text in GRAMMARS.items()}
        with ThreadPoolExecutor(8) as pool:
            for name, choices in pool.map(ask, [(name, seed) for name in GRAMMARS for seed in range(2)]):
                for choice in choices:
                    with self.subTest(grammar=name, answer=choice.text):
                        if choice.finish_reason == "stop":
                            complete[name] += 1
                            self.assertTrue(references[name].matches(choice.text))
                        else:  # the last character may be cut
                            self.assertTrue(references[name].begins(choice.text.rstrip("\ufffd")))
        print(f"[ figures  ] complete answers: {complete}")
        self.assertGreaterEqual(sum(count > 0 for count in complete.values()), 4)  # others may be cut

    def test_every_answer_matches_its_expression(self):
        for pattern in PATTERNS:
            for choice in self.complete({"guided_regex": pattern}, n=8, seed=1).choices:
                self.assertEqual(choice.finish_reason, "stop")
                self.assertRegex(choice.text, re.compile(rf"\A(?:{pattern})\Z"))

    def test_every_answer_is_one_of_the_texts(self):
        texts = ["a fox", "a fox and a bear", "nobody", "ein Bär 🐻"]
        found = {choice.text for seed in range(4) for choice in self.complete({"guided_choice": texts}, n=16, seed=seed).choices}
        self.assertLessEqual(found, set(texts))
        self.assertGreater(len(found), 1)

    def test_all_names_and_paths_mean_the_same(self):
        grammar = 'root ::= "yes" | "no" " thanks"?'
        ways = [{"guided_grammar": grammar}, {"grammar": grammar}, {"structured_outputs": {"grammar": grammar}}]
        for extra in ways:
            self.assertIn(self.complete(extra).choices[0].text, ["yes", "no", "no thanks"])
            self.assertIn(self.chat(extra).choices[0].message.content, ["yes", "no", "no thanks"])
            answer = self.client.responses.create(model=self.model, input="Hello?", extra_body=extra)
            self.assertIn(answer.output_text, ["yes", "no", "no thanks"])
        for extra in [{"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)}, {"json_schema": SCHEMA}, {"structured_outputs": {"json": SCHEMA}}]:
            value = json.loads(self.chat(extra).choices[0].message.content)
            jsonschema.validate(value, SCHEMA)
            self.assertEqual(list(value), ["b", "a"])
        text = self.chat({"structured_outputs": {"choice": ["left", "right"]}}).choices[0].message.content
        self.assertIn(text, ["left", "right"])
        text = self.chat({"structured_outputs": {"regex": "[0-9]{3}"}}).choices[0].message.content
        self.assertRegex(text, r"\A[0-9]{3}\Z")
        text = self.chat({"structured_outputs": {"json_object": True}}, temperature=0.8, max_tokens=400, seed=3).choices[0].message.content
        self.assertTrue(text.startswith("{"))

    def test_streams_and_stops_as_ever(self):
        extra = {"guided_grammar": GRAMMARS["list"]}
        whole = self.complete(extra, seed=7, max_tokens=60).choices[0].text
        stream = self.complete(extra, seed=7, max_tokens=60, stream=True)
        self.assertEqual("".join(event.choices[0].text for event in stream), whole)
        stopped = self.complete({"guided_choice": ["one two three"]}, stop="two").choices[0]
        self.assertEqual((stopped.text, stopped.finish_reason), ("one ", "stop"))

    def test_the_command_line_has_them_too(self):
        def texts(*flags):
            done = run("generate", "-p", "Once", "-n", "100", "--temp", "1.5", "-s", "3", "--json", *flags)
            return [answer["text"] for answer in json.loads(done.stdout)["responses"]]

        path = Path(__file__).parents[1] / "data/grammar/gbnf/sql.gbnf"
        for text in texts("--grammar-file", str(path)):
            self.assertTrue(Gbnf(GRAMMARS["sql"]).matches(text))
        self.assertIn(texts("--grammar", 'root ::= "yes" | "no"')[0], ["yes", "no"])
        self.assertRegex(texts("--regex", "[ab]{4}")[0], r"\A[ab]{4}\Z")
        self.assertIn(texts("--choice", "left", "--choice", "right")[0], ["left", "right"])

    def refuses(self, extra, param, *needles, ask=None):
        with self.assertRaises(openai.BadRequestError) as caught:
            (ask or self.complete)(extra)
        self.assertEqual(caught.exception.param, param)
        for needle in needles:
            self.assertIn(needle, str(caught.exception))

    def test_what_is_wrong_is_refused_by_name(self):
        self.refuses({"guided_grammar": "root ::= a\n"}, "guided_grammar", "line 1, column 10: rule a is not defined")
        self.refuses({"grammar": 'root ::= root "a" | "b"'}, "grammar", "rule root begins with itself")
        self.refuses({"structured_outputs": {"grammar": "?start: x"}}, "structured_outputs.grammar", "expected a rule")
        self.refuses({"guided_regex": r"a\b"}, "guided_regex", "is not supported")
        self.refuses({"guided_regex": "("}, "guided_regex", "'(' without ')'")
        self.refuses({"guided_json": "{"}, "guided_json")
        self.refuses({"guided_json": {"not": {}}}, "guided_json", "not")
        self.refuses({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag", "not supported")
        self.refuses({"guided_decoding_backend": "xgrammar"}, "guided_decoding_backend", "not supported")
        self.refuses({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern", "not supported")
        both = {"guided_choice": ["a"], "response_format": {"type": "json_object"}}
        for ask in (self.complete, self.chat):
            self.refuses(both, "guided_choice", "response_format", ask=ask)
            self.refuses({"guided_choice": ["a"], "grammar": "b"}, "grammar", "guided_choice", ask=ask)


if __name__ == "__main__":
    print("openai", openai.__version__)
    unittest.main()
