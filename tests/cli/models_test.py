"""Models in Hugging Face's cache by name, models in GGUF files, and serval models."""

import json
import os
import pathlib
import shutil
import tempfile
import unittest

import tiny_gguf
import tiny_model
from harness import Case, run

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cache_model(hub, name, write, reference="main"):
    """Creates a model's folders as huggingface_hub does. `write` writes the files into the snapshot's folder."""
    folder = pathlib.Path(hub) / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / reference).write_text(COMMIT)
    write(str(snapshot))
    return snapshot


class WithCache(Case):
    def setUp(self):
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.hub = self.folder / "hub"
        self.hub.mkdir()

    def run_in_cache(self, *arguments):
        return run(*arguments, env={"HF_HOME": str(self.folder), "HF_HUB_CACHE": ""})

    def facts(self, *arguments):
        result = self.run_in_cache("models", "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return json.loads(result.stdout)


class Names(WithCache):
    def test_a_model_in_the_cache_runs_by_its_name(self):
        cache_model(self.hub, "org/tiny", tiny_model.write)
        result = self.run_in_cache("generate", "-m", "org/tiny", "-p", "a", "-n", "2", "--temp", "0")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_gguf_file_alone_in_a_snapshot_is_the_model(self):
        snapshot = cache_model(self.hub, "org/tiny-gguf", lambda folder: tiny_gguf.write(f"{folder}/tiny.gguf"))
        info = self.run_in_cache("info", "--json", "-m", "org/tiny-gguf")
        self.assertEqual(json.loads(info.stdout)["model"]["directory"], str(snapshot / "tiny.gguf"))

    def test_of_several_gguf_files_one_has_to_be_named(self):
        snapshot = cache_model(self.hub, "org/two", lambda folder: tiny_gguf.write(f"{folder}/a.gguf"))
        shutil.copy(snapshot / "a.gguf", snapshot / "b.gguf")
        result = self.run_in_cache("info", "-m", "org/two")
        line = f"serval: error: model org/two: 2 GGUF files (a.gguf, b.gguf); give the path of one in {snapshot}\n"
        self.assertEqual((result.returncode, result.stderr.decode()), (1, line))

    def test_another_revision_is_named_after_an_at_sign(self):
        cache_model(self.hub, "org/tiny", tiny_model.write, reference="v2")
        self.assertEqual(self.run_in_cache("info", "-m", "org/tiny@v2").returncode, 0)
        self.assertEqual(self.run_in_cache("info", "-m", f"org/tiny@{COMMIT}").returncode, 0)
        self.assertEqual(self.run_in_cache("info", "-m", "org/tiny").returncode, 1)

    def test_a_model_that_is_not_there_is_one_line_with_the_command_that_fetches_it(self):
        for name, command in (("org/none", "hf download org/none"), ("org/none@v2", "hf download org/none --revision v2")):
            result = self.run_in_cache("generate", "-m", name, "-p", "x")
            line = f"serval: error: model {name}: neither a directory nor in {self.hub}; to fetch it: {command}\n"
            self.assertEqual((result.returncode, result.stderr.decode()), (1, line))

    def test_hf_hub_cache_wins_over_hf_home(self):
        other = self.folder / "elsewhere"
        cache_model(other, "org/tiny", tiny_model.write)
        env = {"HF_HOME": str(self.folder), "HF_HUB_CACHE": str(other)}
        self.assertEqual(run("info", "-m", "org/tiny", env=env).returncode, 0)


class Gguf(WithCache):
    def test_a_gguf_file_generates_and_chats(self):
        file = str(self.folder / "tiny.gguf")
        tiny_gguf.write(file)
        generated = run("generate", "-m", file, "-p", "ab", "-n", "3", "--temp", "0")
        self.assertEqual(generated.returncode, 0, generated.stderr)
        answered = run("chat", "-m", file, "-n", "3", stdin=b"hello\n")
        self.assertEqual(answered.returncode, 0, answered.stderr)

    def test_a_damaged_one_is_one_line(self):
        file = self.folder / "tiny.gguf"
        tiny_gguf.write(str(file))
        whole = file.read_bytes()
        for size in (4, 20, 100, len(whole) - 1):
            file.write_bytes(whole[:size])
            result = run("generate", "-m", str(file), "-p", "x")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr.decode(), rf"\Aserval: error: {file}: [^\n]+\n\Z")


class Models(WithCache):
    def test_an_empty_cache_is_said_to_be_empty(self):
        result = self.run_in_cache("models")
        self.assertEqual((result.returncode, result.stdout.decode()), (0, f"no models in {self.hub}\n"))
        self.assertEqual(self.facts(), [])

    def test_the_cache_and_a_folder_are_listed_with_what_runs(self):
        cache_model(self.hub, "org/tiny", tiny_model.write)
        models = self.folder / "models"
        (models / "broken").mkdir(parents=True)
        (models / "broken" / "config.json").write_text('{"model_type": "gemma"}')
        tiny_gguf.write(str(models / "tiny.gguf"))
        listed = {entry["name"]: entry for entry in self.facts(str(models))}
        self.assertEqual(list(listed), ["org/tiny", str(models / "broken"), str(models / "tiny.gguf")])
        self.assertTrue(listed["org/tiny"]["runs_here"])
        self.assertEqual(listed["org/tiny"]["format"], "safetensors")
        gguf = listed[str(models / "tiny.gguf")]
        self.assertEqual((gguf["runs_here"], gguf["format"], gguf["layers"]), (True, "GGUF", 1))
        self.assertGreater(gguf["bytes"], 0)
        broken = listed[str(models / "broken")]
        self.assertFalse(broken["runs_here"])
        self.assertIn('model_type: found "gemma"', broken["problem"])
        text = self.run_in_cache("models", str(models)).stdout.decode()
        self.assertIn("org/tiny\n  safetensors, ", text)
        self.assertEqual(text.count("  runs here\n"), 2)
        self.assertIn("  does not run here: ", text)

    def test_a_folder_that_is_none_is_a_usage_error(self):
        self.assertEqual(self.run_in_cache("models", "/nonexistent").returncode, 2)


if __name__ == "__main__":
    unittest.main()
