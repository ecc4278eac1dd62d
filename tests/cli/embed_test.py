"""serval embed."""

import json
import math
import shutil
import tempfile
import unittest
from pathlib import Path

from harness import Case, run

BUNDLED = Path(__file__).resolve().parents[2] / "assets/serval-stories"
HIDDEN = 256
LONG = "Once upon a time, there was a small boy who lived in the banana grove. " * 5


class Embed(Case):
    def embed(self, *flags, stdin=b""):
        result = run("embed", *flags, stdin=stdin)
        self.assertEqual(result.returncode, 0, msg=result.stderr.decode())
        self.assertIn(b"embedding", result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def fails(self, code, text, *flags, env=None):
        result = run("embed", *flags, env=env)
        self.assertEqual(result.returncode, code, msg=result.stderr.decode())
        self.assertEqual(result.stdout, b"")
        self.assertIn(text, result.stderr.decode())

    def test_prints_a_line_for_each_text(self):
        lines = self.embed("-f", "-", stdin=b"Once upon a time\n\nThe fox\n")
        self.assertEqual([line["index"] for line in lines], [0, 1])
        self.assertEqual(lines, self.embed("-p", "Once upon a time", "-p", "The fox"))
        for line in lines:
            self.assertEqual(len(line["embedding"]), HIDDEN)
            self.assertAlmostEqual(math.fsum(value * value for value in line["embedding"]), 1, places=5)
        tokens = json.loads(run("tokenize", "-p", "The fox", "--json").stdout)["tokens"]
        self.assertEqual(lines[1]["tokens"], len(tokens))
        ids = ",".join(map(str, tokens))
        self.assertEqual(self.embed("--prompt-ids", ids)[0]["embedding"], lines[1]["embedding"])

    def test_the_bits_do_not_depend_on_how_a_text_is_read(self):
        for pooling in ("last", "mean", "cls"):
            at_once = self.embed("-p", LONG, "--pooling", pooling, "--max-batch-tokens", "512")
            pieces = self.embed("-p", "x", "-p", LONG, "--pooling", pooling, "--max-sequences", "2")
            self.assertEqual(pieces[1]["embedding"], at_once[0]["embedding"], pooling)

    def test_pools_as_asked(self):
        found = {pooling: self.embed("-p", LONG, "--pooling", pooling)[0]["embedding"] for pooling in ("last", "mean", "cls")}
        self.assertEqual(found["last"], self.embed("-p", LONG)[0]["embedding"], "the default")
        self.assertNotEqual(found["last"], found["mean"])
        first = self.embed("-p", "x", "--pooling", "cls")[0]["embedding"]
        self.assertEqual(found["cls"], first, "the first token is BOS, which nothing comes before")

    def test_cuts_and_normalises(self):
        whole = self.embed("-p", "The fox", "--no-normalize")[0]["embedding"]
        part = self.embed("-p", "The fox", "--dimensions", "16")[0]["embedding"]
        length = math.sqrt(math.fsum(value * value for value in whole[:16]))
        for value, of_whole in zip(part, whole[:16], strict=True):
            self.assertAlmostEqual(value, of_whole / length, places=6)

    def test_takes_what_the_models_files_say(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            shutil.copytree(BUNDLED, folder)
            (folder / "1_Pooling").mkdir()
            (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
            (folder / "modules.json").write_text(json.dumps([{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
            found = self.embed("-m", str(folder), "-p", "The fox")
            self.assertEqual(found, self.embed("-p", "The fox", "--pooling", "mean", "--no-normalize"))
            self.assertEqual(self.embed("-m", str(folder), "-p", "The fox", "--pooling", "last", "--no-normalize"),
                             self.embed("-p", "The fox", "--no-normalize"))
            generated = run("generate", "-m", str(folder), "-p", "The fox", "-n", "4", "--temp", "0")
            self.assertEqual(generated.returncode, 0, "other commands generate")
            (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
            self.fails(1, "pooling_mode_max_tokens: true; supported", "-m", str(folder), "-p", "x")

    def test_refuses_what_is_wrong(self):
        self.fails(2, "no prompt")
        self.fails(2, "--pooling", "-p", "x", "--pooling", "max")
        self.fails(2, "--dimensions", "-p", "x", "--dimensions", "0")
        self.fails(2, "dimensions: 257; limit: 1 to 256", "-p", "x", "--dimensions", "257")
        for weights in ("fp8", "int4"):
            self.fails(2, f"embeddings: computed with weights in bf16; found weights: {weights}", "-p", "x", "--weights", weights)
        self.fails(2, "embeddings: supported on 1 GPU", "-p", "x", "--gpus", "2")
        self.fails(2, "prompt:", "-p", LONG, "-c", "16")
        self.fails(2, "SERVAL_POOLING", "-p", "x", env={"SERVAL_POOLING": "max"})


if __name__ == "__main__":
    unittest.main()
