"""Answers to requests with a response_format are JSON and valid under its schema, regardless of the model."""

import json
import random
import unittest
from concurrent.futures import ThreadPoolExecutor

import pypi
from serving import Case

pypi.fetch()

import jsonschema  # noqa: E402
import openai  # noqa: E402

WARM = {"temperature": 1.5, "top_p": 1, "extra_body": {"top_k": 0, "min_p": 0}}  # makes the model's own text improbable
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "likes": {"type": "array", "items": {"enum": ["cake", "cats", "rain"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


class RandomSchema:
    """Schemas whose values are short: all strings and arrays are bounded."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def make(self):
        defs = {"leaf": self.scalar(), "tree": self.tree()}
        return {**self.value(3, True), "$defs": defs}

    def tree(self):
        child = {"anyOf": [{"type": "null"}, {"type": "null"}, {"$ref": "#/$defs/tree"}]}
        return {"type": "object", "properties": {"v": {"type": "integer"}, "next": child}, "required": ["v", "next"]}

    def scalar(self):
        pattern = self.random.choice(["^[a-c]{2,5}$", "^(ab|cd)+e?$", "^\\d{3}-\\d{2}$", "^[^a-z]{1,4}$", "^(\\w|\"){3}$"])
        least = self.random.randint(0, 4)
        return self.random.choice(
            [
                {"type": "boolean"},
                {"type": "null"},
                {"type": "integer"},
                {"type": "number"},
                self.limited(),
                {"type": "string", "minLength": least, "maxLength": least + self.random.randint(0, 8)},
                {"type": "string", "maxLength": 9, "pattern": pattern},
                {"type": "string", "format": self.random.choice(["date", "uuid", "time", "date-time"])},
                {"enum": self.random.sample(["red", "green", "grün", 7, 7.5, None, True, {"a": [1]}, 'a "b"\n'], 3)},
                {"const": self.random.choice(["x", 3, {"k": None}])},
                {"type": ["integer", "null"]},
            ]
        )

    def limited(self):
        low = self.random.choice([-1000, -2.5, 0, 0.1, 7])
        schema = {"type": self.random.choice(["integer", "number"])}
        schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.random.random() < 0.6:
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([1.5, 20, 3000])
        if self.random.random() < 0.3:
            schema["multipleOf"] = self.random.choice([1, 0.5, 0.25])
        return schema

    def union(self, depth):
        """A tagged union of objects, each of which is an `allOf` of two."""
        elements = []
        for tag in self.random.sample(["cat", "dog", "owl"], 2):
            own = {"type": "object", "properties": {"kind": {"const": tag}, "x": self.value(depth - 1)}, "required": ["kind"]}
            shared = {"properties": {"y": self.value(depth - 1)}, "required": self.random.choice([[], ["y"]])}
            elements.append({"allOf": [own, shared]})
        return {"oneOf": elements, "discriminator": {"propertyName": "kind"}}

    def value(self, depth, is_top=False):
        kind = self.random.random()
        if depth == 0 or (kind < 0.3 and not is_top):
            return self.scalar()
        if kind < 0.65:
            return self.object(depth)
        if kind < 0.85:
            return self.array(depth)
        if kind < 0.9:
            return self.union(depth)
        if kind < 0.95:
            return {"anyOf": [self.value(depth - 1) for _ in range(self.random.randint(1, 3))]}
        return {"$ref": self.random.choice(["#/$defs/leaf", "#/$defs/tree"])}

    def object(self, depth):
        names = self.random.sample(["id", "name", "ü", "a b", 'q"', "list", "", "n1"], self.random.randint(1, 4))
        required = [name for name in names if self.random.random() < 0.6]
        schema = {"type": "object", "properties": {n: self.value(depth - 1) for n in names}, "required": required}
        if self.random.random() < 0.7:
            schema["additionalProperties"] = False
        return schema

    def array(self, depth):
        least = self.random.randint(0, 2)
        schema = {"type": "array", "minItems": least, "maxItems": least + self.random.randint(0, 2)}
        if self.random.random() < 0.3:
            prefix = [self.value(depth - 1) for _ in range(self.random.randint(1, 2))]
            return {**schema, "prefixItems": prefix, "items": False, "minItems": 0, "maxItems": 2}
        return {**schema, "items": self.value(depth - 1)}


class JsonOutput(Case):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)
        self.model = self.client.models.list().data[0].id

    def chat(self, response_format, **parameters):
        messages = [{"role": "user", "content": "Tell me about Tom."}]
        return self.client.chat.completions.create(
            model=self.model, messages=messages, response_format=response_format, **parameters
        )

    def test_random_schemas_have_valid_answers(self):
        wanted, cases = 200, 240

        def ask(seed):
            schema = RandomSchema(seed).make()
            answer = self.chat(format_of(schema), seed=seed, max_tokens=600, **WARM)
            return schema, answer.choices[0]

        complete = 0
        with ThreadPoolExecutor(16) as pool:
            for schema, choice in pool.map(ask, range(cases)):
                if choice.finish_reason == "length":
                    continue
                value = json.loads(choice.message.content)
                validator = jsonschema.Draft202012Validator(schema)
                with self.subTest(schema=schema, answer=choice.message.content):
                    self.assertEqual([error.message for error in validator.iter_errors(value)], [])
                complete += 1
        print(f"[ figures  ] {complete} of {cases} answers complete and valid")
        self.assertGreaterEqual(complete, wanted)

    def test_an_object_of_any_kind(self):
        answer = self.chat({"type": "json_object"}, n=32, seed=1, max_tokens=400, temperature=0.8)
        complete = [c.message.content for c in answer.choices if c.finish_reason == "stop"]
        self.assertGreater(len(complete), 0)
        for text in complete:
            self.assertIsInstance(json.loads(text), dict)

    def test_completions_and_streams_have_it_too(self):
        whole = self.client.completions.create(
            model=self.model, prompt="Tom", seed=5, max_tokens=300, extra_body={"response_format": format_of(PERSON)}
        )
        jsonschema.validate(json.loads(whole.choices[0].text), PERSON)
        events = self.client.completions.create(
            model=self.model, prompt="Tom", seed=5, max_tokens=300, stream=True, extra_body={"response_format": format_of(PERSON)}
        )
        self.assertEqual("".join(event.choices[0].text for event in events), whole.choices[0].text)

    def test_goes_with_all_that_shapes_the_draw(self):
        answer = self.chat(
            format_of(PERSON),
            n=8,
            seed=3,
            max_tokens=300,
            presence_penalty=1.5,
            frequency_penalty=1.5,
            logit_bias={"11": 5, "300": 100},
            logprobs=True,
            top_logprobs=5,
            extra_body={"repetition_penalty": 1.3},
        )
        for choice in answer.choices:
            jsonschema.validate(json.loads(choice.message.content), PERSON)
            self.assertEqual("".join(token.token for token in choice.logprobs.content), choice.message.content)
            for token in choice.logprobs.content:
                self.assertEqual(len(token.top_logprobs), 5)
                self.assertLessEqual(token.logprob, token.top_logprobs[0].logprob)  # the mask may exclude the likeliest tokens

    def test_the_properties_keep_their_order(self):
        schema = {"type": "object", "properties": {n: {"type": "null"} for n in "zayb"}, "required": list("zayb")}
        text = self.chat(format_of(schema), max_tokens=100).choices[0].message.content
        self.assertEqual(list(json.loads(text)), list("zayb"))

    def test_a_stop_string_and_max_tokens_end_it_before(self):
        stopped = self.chat(format_of(PERSON), seed=1, max_tokens=300, stop='"age"').choices[0]
        self.assertEqual(stopped.finish_reason, "stop")
        self.assertTrue(stopped.message.content.startswith("{"))
        self.assertNotIn('"age"', stopped.message.content)
        self.assertEqual(self.chat(format_of(PERSON), max_tokens=2).choices[0].finish_reason, "length")

    def test_others_are_not_changed_by_it(self):
        def story():
            return self.client.completions.create(model=self.model, prompt="Once upon a time", temperature=0, max_tokens=40)

        alone = story().choices[0].text
        with ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(self.chat, format_of(PERSON), seed=i, max_tokens=200) for i in range(6)]
            stories = [pool.submit(story) for _ in range(6)]
            for answer in answers:
                jsonschema.validate(json.loads(answer.result().choices[0].message.content), PERSON)
            for one in stories:
                self.assertEqual(one.result().choices[0].text, alone)

    def test_what_is_not_supported_is_refused_by_name(self):
        def refuses(response_format, param, *needles, **more):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat(response_format, **more)
            self.assertEqual(caught.exception.param, param)
            for needle in needles:
                self.assertIn(needle, str(caught.exception))

        refuses(format_of({"type": "object", "properties": {"a": {"not": {}}}}), "response_format", "not", "#/properties/a")
        refuses(format_of({"type": "integer", "minimum": 3, "maximum": 2}), "response_format", "minimum")
        refuses(format_of({"oneOf": [{}, {}]}), "response_format", "#/oneOf")
        refuses(format_of({"type": "string", "pattern": "(?<=a)b"}), "response_format", "pattern")
        refuses(format_of({"$ref": "#/$defs/missing"}), "response_format", "not in this schema")
        refuses({"type": "json_schema"}, "response_format.json_schema")
        refuses({"type": "json_schema", "json_schema": {"name": "a"}}, "response_format.json_schema.schema")
        hostile = {"anyOf": [{"type": "string", "pattern": f"(a|b)*a[ab]{{{n}}}$"} for n in range(8, 60)]}
        refuses(format_of(hostile), "response_format", "too complicated")
        refuses({"type": "yaml"}, "response_format.type")
        refuses({"type": "json_object"}, "min_tokens", extra_body={"min_tokens": 3})
        refuses({"type": "json_object"}, "ignore_eos", extra_body={"ignore_eos": True})


if __name__ == "__main__":
    print("jsonschema and openai", openai.__version__)
    unittest.main()
