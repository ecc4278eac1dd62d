"""serval profile: tokens recorded on the host and on the simulator, reports, trace files, differences."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import schema
from harness import Case, run

SMALL = ("--sms", "3", "--depth", "20")


class Profile(Case):
    def profile(self, *arguments):
        result = run("profile", *arguments)
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        return result.stdout.decode()

    def report(self, *arguments):
        out = json.loads(self.profile("--json", *arguments))
        schema.check(out, schema.load("profile.schema.json"))
        return out

    def on_host(self, *arguments):
        return self.report(*self.with_model, "--backend", "host", *SMALL, *arguments)

    def simulated(self, *arguments):
        return self.report("-m", self.model, "--backend", "sim", *SMALL, *arguments)

    def check_adds_up(self, report):
        token = sum(report["token_ns"]) / report["tokens"]
        self.assertAlmostEqual(sum(row["ns"] for row in report["path"]) / token, 1, places=6)
        for sm in report["by_sm"]:
            parts = sum(sm[f"{state}_ns"] for state in ["compute", "wait", "load", "idle"])
            self.assertAlmostEqual(parts / token, 1, places=2)
        self.assertAlmostEqual(sum(op["bytes"] for op in report["ops"]) / report["bytes"], 1, places=6)

    def test_a_recorded_token_adds_up(self):
        report = self.on_host("-n", "3", "--threads", "2")
        self.assertEqual((report["source"], report["sms"], report["tokens"]), ("host", 3, 3))
        self.assertEqual(report["savings"], [])
        self.check_adds_up(report)

    def test_a_simulated_token_adds_up_and_says_what_would_save_most(self):
        report = self.simulated()
        self.assertEqual((report["source"], report["sms"], report["tokens"]), ("sim", 3, 1))
        self.assertEqual(len(report["savings"]), 5)
        self.check_adds_up(report)

    def test_several_sequences_are_recorded_together(self):
        self.assertEqual(self.simulated("-b", "4")["metadata"]["sequences"], "4")
        self.assertEqual(self.on_host("-b", "4")["metadata"]["sequences"], "4")

    def test_gpus_that_share_a_model_are_seen_on_the_host_and_on_the_simulator(self):
        for report in (self.on_host("--gpus", "2"), self.simulated("--gpus", "2")):
            with self.subTest(source=report["source"]):
                self.assertEqual((report["ranks"], report["sms"]), (2, 6))
                self.check_adds_up(report)

    def test_the_last_pass_of_a_prompt_is_recorded(self):
        whole = self.on_host("-p", "40", "--max-batch-tokens", "64")
        self.assertEqual(whole["tokens"], 1)
        self.check_adds_up(whole)
        self.check_adds_up(self.on_host("-p", "40"))  # the prompt takes three passes

    def test_the_last_pass_of_a_prompt_is_simulated(self):
        whole = self.simulated("-p", "40", "--max-batch-tokens", "64")
        self.assertEqual((whole["source"], whole["tokens"]), ("sim", 1))
        self.check_adds_up(whole)
        last = self.simulated("-p", "40", "--max-batch-tokens", "16")  # the last of three passes
        self.check_adds_up(last)

    def test_a_pass_has_no_more_tokens_than_the_kv_cache(self):
        arguments = ("-p", "40", "--depth", "0")  # a context of 42 tokens needs one block of 64
        self.check_adds_up(self.report("-m", "llama-3.2-1b", "--backend", "sim", "--sms", "3", *arguments))
        for backend in ["sim", "host"]:
            with self.subTest(backend=backend):
                self.check_fails(
                    2,
                    "--max-batch-tokens: 65; limit: 64",
                    arguments=["profile", *self.with_model, "--backend", backend, *arguments,
                               "--max-batch-tokens", "65"],
                )

    def test_a_global_queue_is_recorded_too(self):
        self.check_adds_up(self.on_host("--queue", "global"))

    def test_the_text_has_what_one_looks_for(self):
        text = self.profile("-m", self.model, "--backend", "sim", *SMALL)
        for part in ["token time", "critical path", "ops", "bubbles", "bandwidth", "what would save most"]:
            self.assertIn(part, text)

    def test_what_if_changes_the_machine(self):
        token = self.simulated()["median_token_ns"]
        faster = self.simulated("--what-if", "round_factor=x0.1", "--what-if", "sample.fixed_us=0")
        self.assertLess(faster["median_token_ns"], token)
        self.assertGreater(self.simulated("--what-if", "gb_per_s=100")["median_token_ns"], token)

    def test_a_trace_file_gives_the_same_report(self):
        for name in ["token.json", "token.json.gz"]:
            path = self.path(name)
            report = self.on_host("--trace", path, "-n", "2")
            self.assertEqual(self.report(path), report)

    def test_a_trace_file_is_one_that_viewers_read(self):
        path = self.path("viewer.json.gz")
        self.on_host("--trace", path)
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({event["ph"] for event in events}, set("MXCsf"))
        self.assertTrue(any(event.get("cat") == "compute" for event in events))

    def test_a_layer_of_two_gpus_can_be_drawn_with_what_crosses_the_link(self):
        trace, picture = self.path("ranks.json.gz"), self.path("layer.svg")
        self.profile("--backend", "sim", *SMALL, "--gpus", "2", "--trace", trace)  # the bundled model, which has enough layers
        self.assertEqual(self.draw(trace, picture, "0").returncode, 0)
        drawn = xml.etree.ElementTree.parse(picture).getroot()
        words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        self.assertLessEqual({"GPU 0", "GPU 1", "matvec_push", "reduce_residual", "link", "pushed"}, set(words))
        crossing = [path.get("d") for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("opacity") == ".6"]
        self.assertEqual(len(crossing), 2, msg="partial sums, and what is made of them")
        self.profile("-m", self.model, "--backend", "sim", *SMALL, "--trace", trace)
        refused = self.draw(trace, picture)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ranks: 1; the picture is of two", refused.stderr)

    def draw(self, *arguments):
        tool = pathlib.Path(__file__).parents[2] / "tools" / "layer_picture.py"
        return subprocess.run([sys.executable, "-B", tool, *arguments], capture_output=True, text=True)

    def test_files_alone_print_no_report(self):
        trace, page = self.path("alone.json"), self.path("alone.html")
        self.assertEqual(self.profile(*self.with_model, *SMALL, "--trace", trace, "--html", page), "")
        self.assertGreater(os.path.getsize(page), 0)
        self.assertNotEqual(self.profile(trace, "--html", page, "--report"), "")

    def test_bad_combinations_are_refused(self):
        for needle, arguments in [
            ("--what-if", ["--what-if", "gb_per_s=1"]),
            ("no_such_thing", ["--backend", "sim", "--what-if", "no_such_thing=1"]),
            ("--tokens", ["--tokens", "0"]),
            ("--depth", ["some.json", "--depth", "3"]),
            ("--backend", ["--backend", "moon"]),
        ]:
            with self.subTest(arguments=arguments):
                self.check_fails(2, needle, arguments=["profile", *arguments])

    def test_a_context_that_the_model_has_not_is_refused(self):
        self.check_fails(2, "context", arguments=["profile", *self.with_model, "--depth", "1000000"])


class Diff(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fast = os.path.join(cls.directory.name, "fast.json")
        cls.slow = os.path.join(cls.directory.name, "slow.json.gz")
        sim = ["profile", "-m", cls.model, "--backend", "sim", *SMALL]
        assert run(*sim, "--trace", cls.fast).returncode == 0
        assert run(*sim, "--trace", cls.slow, "--what-if", "round_factor=x8").returncode == 0

    def test_a_trace_does_not_differ_from_itself(self):
        result = run("profile", "diff", self.fast, self.fast, "--fail-above", "0", "--json")
        self.assertEqual(result.returncode, 0, msg=result.stderr)
        self.assertEqual(json.loads(result.stdout)["slower"], 0)

    def test_it_names_what_got_slower(self):
        out = json.loads(run("profile", "diff", self.fast, self.slow, "--json").stdout)
        self.assertGreater(out["slower"], 0)
        self.assertEqual(out["ops"][0]["state"], "wait")
        back = json.loads(run("profile", "diff", self.slow, self.fast, "--json").stdout)
        self.assertLess(back["slower"], 0)

    def test_above_the_threshold_it_fails_and_still_says_why(self):
        result = run("profile", "diff", self.fast, self.slow, "--fail-above", "3%")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"token time", result.stdout)
        self.assertIn(b"longer; limit: 3.00 %", result.stderr)
        self.assertEqual(run("profile", "diff", self.fast, self.slow, "--fail-above", "100000%").returncode, 0)
        self.assertEqual(run("profile", "diff", self.slow, self.fast, "--fail-above", "3").returncode, 0)

    def test_both_fit_on_a_page(self):
        page = self.path("both.html")
        self.assertEqual(run("profile", "diff", self.fast, self.slow, "--html", page).returncode, 0)
        self.assertGreater(os.path.getsize(page), 0)

    def test_a_damaged_trace_is_a_clear_error(self):
        with open(self.fast, "rb") as file:
            good = file.read()
        with open(self.slow, "rb") as file:
            packed = file.read()
        bad = {
            "cut.json": (good[: len(good) // 2], "cut.json"),
            "cut.json.gz": (packed[: len(packed) // 2], "the data ends early"),
            "bit.json.gz": (packed[:500] + bytes([packed[500] ^ 64]) + packed[501:], "bit.json.gz"),
            "text.json": (b"not a trace", "not JSON"),
            "empty.json": (b"", "not JSON"),
            "other.json": (b'{"traceEvents":[]}', "not a trace of serval profile"),
        }
        for name, (data, needle) in bad.items():
            path = self.path(name)
            with open(path, "wb") as file:
                file.write(data)
            for pair in [(path, self.fast), (self.fast, path)]:
                with self.subTest(name=name):
                    self.check_fails(1, name, needle, arguments=["profile", "diff", *pair])

    def test_files_that_are_missing_are_named(self):
        self.check_fails(1, "nowhere.json", arguments=["profile", "diff", self.fast, "nowhere.json"])
        self.check_fails(2, "expected 2", arguments=["profile", "diff", self.fast])
        self.check_fails(2, "--fail-above", arguments=["profile", "diff", self.fast, self.fast, "--fail-above", "much"])


if __name__ == "__main__":
    unittest.main()
