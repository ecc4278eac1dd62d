"""/v1/embeddings, driven by OpenAI's own Python client and by raw requests."""

import base64
import json
import math
import shutil
import struct
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypi
from serving import Case
from harness import PATIENCE, run

pypi.fetch()

import openai  # noqa: E402
from openai.types import CreateEmbeddingResponse  # noqa: E402

BUNDLED = Path(__file__).resolve().parents[2] / "assets/serval-stories"
HIDDEN = 256  # of the bundled model
CONTEXT = 128
TEXTS = ["Once upon a time", "The cat sat on the mat.", "x"]


def printed(*flags):
    """What the command says of the same texts."""
    prompts = [part for text in TEXTS for part in ("-p", text)]
    lines = run("embed", *prompts, *flags).stdout.decode().splitlines()
    return [json.loads(line) for line in lines]


def length(values):
    return math.sqrt(sum(value * value for value in values))


def nearest_float(values):
    return [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]


class Embeddings(Case):
    FLAGS = ("--embeddings", "--alias", "embedder", "--ctx-size", str(CONTEXT), "--max-sequences", "4")

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="any", max_retries=0)
        self.addCleanup(self.client.close)

    def create(self, given, **parameters):
        """Returns the client's parsed answer, after the package's types have validated the floats of one that has these."""
        raw = self.client.embeddings.with_raw_response.create(model="embedder", input=given, **parameters)
        if parameters.get("encoding_format") == "float":
            CreateEmbeddingResponse.model_validate(json.loads(raw.text if isinstance(raw.text, str) else raw.text()))
        return raw.parse()

    def embed(self, **body):
        status, answer = self.server.post("/v1/embeddings", body)
        self.assertEqual(status, 200, answer)
        return [item["embedding"] for item in answer["data"]]

    def refuses(self, body, param, text, status=400):
        found, answer = self.server.post("/v1/embeddings", body)
        self.assertEqual((found, answer["error"]["param"]), (status, param), answer)
        self.assertEqual(answer["error"]["type"], "invalid_request_error")
        self.assertIn(text, answer["error"]["message"])

    def test_are_those_of_the_command(self):
        expected = printed("--ctx-size", str(CONTEXT))
        answer = self.create(TEXTS, encoding_format="float")
        self.assertEqual([item.index for item in answer.data], [0, 1, 2])
        for item, wanted in zip(answer.data, expected, strict=True):
            self.assertEqual(item.embedding, wanted["embedding"])
            self.assertEqual(len(item.embedding), HIDDEN)
            self.assertAlmostEqual(length(item.embedding), 1, places=6)
        tokens = sum(wanted["tokens"] for wanted in expected)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.total_tokens), (tokens, tokens))
        self.assertEqual((answer.model, answer.object, answer.data[0].object), ("embedder", "list", "embedding"))

    def test_the_client_asks_for_base64_and_gets_the_same_floats(self):
        floats = self.create(TEXTS, encoding_format="float")
        decoded = self.client.embeddings.create(model="embedder", input=TEXTS)  # the package asks for base64 where no format is given
        for one, other in zip(floats.data, decoded.data, strict=True):
            self.assertEqual(nearest_float(one.embedding), list(other.embedding))
        text = self.embed(input="x", encoding_format="base64")[0]
        self.assertIsInstance(text, str)
        self.assertEqual(list(struct.unpack(f"<{HIDDEN}f", base64.b64decode(text, validate=True))), nearest_float(floats.data[2].embedding))

    def test_takes_texts_and_token_ids(self):
        ids = [self.server.post("/tokenize", {"prompt": text})[1]["tokens"] for text in TEXTS]
        texts = self.embed(input=TEXTS)
        self.assertEqual(self.embed(input=ids), texts)
        self.assertEqual(self.embed(input=ids[1]), texts[1:2])
        self.assertEqual(self.embed(input=TEXTS[0]), texts[:1])
        bare = self.server.post("/tokenize", {"prompt": "x", "add_special_tokens": False})[1]["tokens"]
        self.assertEqual(self.embed(input="x", add_special_tokens=False), self.embed(input=bare))
        self.assertNotEqual(self.embed(input="x", add_special_tokens=False), texts[2:])

    def test_cuts_to_dimensions_and_normalises_what_is_left(self):
        whole = self.create(TEXTS[0], encoding_format="float").data[0].embedding
        part = self.create(TEXTS[0], encoding_format="float", dimensions=64).data[0].embedding
        self.assertEqual(len(part), 64)
        self.assertAlmostEqual(length(part), 1, places=6)
        for value, of_whole in zip(part, whole):
            self.assertAlmostEqual(value, of_whole / length(whole[:64]), places=6)
        raw = self.embed(input=TEXTS[0], normalize=False)[0]
        self.assertNotAlmostEqual(length(raw), 1, places=2)
        for value, of_raw in zip(whole, raw):
            self.assertAlmostEqual(value, of_raw / length(raw), places=6)

    def test_inputs_may_fill_the_context_or_be_cut_to_it(self):
        ids = [i % 300 + 5 for i in range(CONTEXT + 20)]
        self.embed(input=ids[:CONTEXT])
        self.refuses({"input": ids}, "input", f"{CONTEXT + 20} tokens; limit: {CONTEXT}")
        code = self.server.post("/v1/embeddings", {"input": ids})[1]["error"]["code"]
        self.assertEqual(code, "context_length_exceeded")
        self.assertEqual(self.embed(input=ids, truncate_prompt_tokens=-1), self.embed(input=ids[-CONTEXT:]))
        self.assertEqual(self.embed(input=ids, truncate_prompt_tokens=9), self.embed(input=ids[-9:]))

    def test_many_inputs_and_many_clients_get_the_bits_of_one(self):
        alone = self.embed(input=TEXTS)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: self.embed(input=TEXTS * 5), range(16)))
        for answer in found:
            self.assertEqual(answer, alone * 5)

    def test_refuses_what_is_wrong_by_its_name(self):
        self.refuses({}, "input", "required")
        for empty in ("", [], [""], [[]], ["x", ""]):
            with self.subTest(empty=empty):
                param = {"[\"\"]": "input[0]", "[[]]": "input[0]", "[\"x\", \"\"]": "input[1]"}.get(json.dumps(empty), "input")
                self.refuses({"input": empty}, param, "empty")
        self.refuses({"input": 7}, "input", "expected a string")
        self.refuses({"input": ["x", 3]}, "input", "expected a string")
        self.refuses({"input": ["x"] * 2049}, "input", "2049 inputs; limit: 2048")
        self.refuses({"input": [3072]}, "input", "token 3072")
        self.refuses({"input": "x", "encoding_format": "int8"}, "encoding_format", "expected float or base64")
        self.refuses({"input": "x", "dimensions": 0}, "dimensions", "limit: 1")
        self.refuses({"input": "x", "dimensions": HIDDEN + 1}, "dimensions", f"limit: 1 to {HIDDEN}")
        self.refuses({"input": "x", "temperature": 1}, "temperature", "unknown")
        self.refuses({"input": "x", "stream": True}, "stream", "unknown")
        self.refuses({"input": "x", "truncate_prompt_tokens": CONTEXT + 1}, "truncate_prompt_tokens", f"limit: {CONTEXT}")
        self.refuses({"input": "x", "model": "gpt"}, "model", "", 404)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create("")
        self.assertEqual(caught.exception.param, "input")

    def test_generates_nothing(self):
        for path, body in (("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                           ("/v1/responses", {"input": "x"})):
            status, answer = self.server.post(path, body)
            self.assertEqual((status, answer["error"]["code"]), (400, "unsupported_model"), path)
            self.assertIn("this server computes embeddings, at /v1/embeddings", answer["error"]["message"])

    def test_is_counted_and_logged(self):
        before = self.server.metric("prompt_tokens_total")
        self.embed(input="Once upon a time", user="someone")
        self.server.wait_for("someone")
        # The engine publishes its counters after the answer.
        end = time.monotonic() + PATIENCE
        while self.server.metric("prompt_tokens_total") <= before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class OfATextServer(Case):
    def test_says_how_embeddings_are_served(self):
        status, answer = self.server.post("/v1/embeddings", {"input": "x"})
        self.assertEqual((status, answer["error"]["code"]), (400, "unsupported_model"))
        self.assertIn("serval serve --embeddings", answer["error"]["message"])


class OfAModelsFiles(Case):
    def test_serves_what_they_say_unless_told_otherwise(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            shutil.copytree(BUNDLED, folder)
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
            modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling"))]
            (folder / "modules.json").write_text(json.dumps(modules))
            embedder = self.serve("-m", str(folder))
            status, answer = embedder.post("/v1/embeddings", {"input": TEXTS[0]})
            self.assertEqual(status, 200)
            self.assertNotAlmostEqual(length(answer["data"][0]["embedding"]), 1, places=2, msg="no module normalises")
            generating = self.serve("-m", str(folder), "--no-embeddings")
            self.assertEqual(generating.post("/v1/completions", {"prompt": TEXTS[0], "max_tokens": 2})[0], 200)
            self.assertEqual(generating.post("/v1/embeddings", {"input": TEXTS[0]})[0], 400)


class Means(Case):
    FLAGS = ("--embeddings", "--pooling", "mean")

    def test_pools_as_the_flag_says(self):
        expected = printed("--pooling", "mean")
        status, answer = self.server.post("/v1/embeddings", {"input": TEXTS})
        self.assertEqual(status, 200)
        self.assertEqual([item["embedding"] for item in answer["data"]], [wanted["embedding"] for wanted in expected])
        self.server.wait_for("embeddings, pooling mean")
        self.assertNotEqual(printed(), expected)


if __name__ == "__main__":
    unittest.main()
