#!/usr/bin/env python3
"""lm-eval runs against the server and gets the scores of its own `hf` model on the same weights.

Needs lm-eval 0.4.13 or later with its API models, torch and transformers; exits with 77 where they are not installed.
The tasks are those of tests/evaluation/tasks, and the model is the bundled one, so nothing is fetched. Log-likelihoods
are compared with SmolLM2-135M-Instruct, too, where its file is there (`make chat` fetches it) and Python has gguf and
accelerate. The reference is transformers' fp32 pass; the server's log-likelihoods must be as near to it as transformers'
own bf16 pass is.
"""

import os
import sys
import tempfile
import unittest
from importlib import metadata
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
OLDEST = (0, 4, 13)

try:
    import aiohttp  # noqa: F401, of lm-eval's API models
    import lm_eval  # noqa: F401
    import torch
    import transformers
except ImportError as missing:
    print(f"lm_eval: SKIPPED, {missing.name} is not installed (pip install 'lm-eval[api]' torch transformers)", file=sys.stderr)
    sys.exit(SKIPPED)
if tuple(int(part) for part in metadata.version("lm-eval").split(".")[:3]) < OLDEST:
    print(f"lm_eval: SKIPPED, version {metadata.version('lm-eval')}; 0.4.13 or later is needed", file=sys.stderr)
    sys.exit(SKIPPED)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "serval"  # tools/fetch_smollm2.py
SMOLLM2 = CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"
sys.path[:0] = [str(ROOT / "tests" / "server"), str(ROOT / "tests" / "parity")]

from harness import GATE, LIKELIHOODS, answers, evaluate, likelihoods, mean_distance, scores  # noqa: E402
from serving import Server  # noqa: E402


class Evaluations(unittest.TestCase):
    """Runs tasks with lm-eval against a server of `model`, and with its hf model."""

    model = ROOT / "assets" / "serval-stories"

    @classmethod
    def setUpClass(cls):
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(1)  # the models are small, and threads that wait for each other are slow on a busy machine
        cls.server = Server("-m", str(cls.model), "--max-sequences", "8")
        cls.addClassCleanup(cls.server.stop)

    def ours(self, tasks, concurrent, model="local-completions", path="completions", **more):
        name = self.server.get("/v1/models")[1]["data"][0]["id"]
        arguments = {"base_url": f"http://127.0.0.1:{self.server.port}/v1/{path}", "model": name, "num_concurrent": concurrent}
        return evaluate(model, tasks, arguments, **more)

    def theirs(self, tasks, dtype, **more):
        # The API's tokenizer adds no BOS.
        arguments = {"pretrained": str(self.model), "dtype": dtype, "add_bos_token": False}
        return evaluate("hf", tasks, arguments, device="cpu", batch_size=1, **more)

    def compare_likelihoods(self):
        """Returns the scores of the server and of transformers' fp32 pass."""
        fp32, bf16 = (self.theirs(LIKELIHOODS, dtype) for dtype in ("float32", "bfloat16"))
        ours = self.ours(LIKELIHOODS, 8)
        error, limit = (mean_distance(likelihoods(run), likelihoods(fp32)) for run in (ours, bf16))
        print(f"{self.model.name}: mean distance from fp32: ours {error:.5f}, transformers' bf16 {limit:.5f}")
        for run in (ours, fp32, bf16):
            print(scores(run))
        self.assertGreater(error, 0)
        self.assertLessEqual(error, GATE * limit)
        for metric in ("byte_perplexity,none", "bits_per_byte,none"):
            self.assertAlmostEqual(scores(ours)["serval_rolling"][metric] / scores(fp32)["serval_rolling"][metric], 1, delta=0.005, msg=metric)
        self.assertGreater(scores(ours)["serval_choice"]["acc,none"], 0.5, "the tasks make sense to the model")
        return scores(ours), scores(fp32)


class SmolLm2(Evaluations):
    @classmethod
    def setUpClass(cls):
        if not SMOLLM2.is_file():
            raise unittest.SkipTest(f"{SMOLLM2} is not there (tools/fetch_smollm2.py)")
        try:
            import smollm2  # tests/parity; exits where packages are missing
        except SystemExit:
            raise unittest.SkipTest("gguf or accelerate is not installed") from None
        folder = tempfile.TemporaryDirectory(prefix="smollm2-")
        cls.addClassCleanup(folder.cleanup)
        cls.model = Path(folder.name)
        smollm2.convert(SMOLLM2, cls.model)
        super().setUpClass()

    def test_log_likelihoods_are_as_near_to_fp32_as_a_bf16_pass(self):
        ours, fp32 = self.compare_likelihoods()
        self.assertEqual(ours["serval_choice"]["acc,none"], fp32["serval_choice"]["acc,none"])


class LmEval(Evaluations):
    def test_log_likelihoods_are_as_near_to_fp32_as_a_bf16_pass(self):
        ours, fp32 = self.compare_likelihoods()
        self.assertEqual(ours["serval_choice"], fp32["serval_choice"])

    def test_scores_are_the_same_bits_at_any_concurrency(self):
        alone = self.ours([*LIKELIHOODS, "serval_generate"], 1)
        beside = self.ours([*LIKELIHOODS, "serval_generate"], 8)
        self.assertEqual(scores(alone), scores(beside))
        for task in [*LIKELIHOODS, "serval_generate"]:
            self.assertEqual(answers(alone, task), answers(beside, task))

    def test_greedy_texts_are_those_of_transformers(self):
        ours, fp32 = self.ours(["serval_generate"], 8), self.theirs(["serval_generate"], "float32")
        self.assertEqual(answers(ours, "serval_generate"), answers(fp32, "serval_generate"))
        self.assertEqual(scores(ours), scores(fp32))

    def test_conversations_are_those_of_transformers(self):
        more = {"apply_chat_template": True}
        theirs = self.theirs(["serval_chat"], "float32", **more)
        for concurrent in (1, 8):
            ours = self.ours(["serval_chat"], concurrent, "local-chat-completions", "chat/completions", **more)
            self.assertEqual(answers(ours, "serval_chat"), answers(theirs, "serval_chat"))
            self.assertEqual(scores(ours), scores(theirs))


if __name__ == "__main__":
    unittest.main()
