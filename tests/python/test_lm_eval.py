"""lm-eval's `--model serval` gives the scores of lm-eval's own `hf` model, and the same bits at any concurrency.

Needs lm-eval 0.4.13 or later, torch and transformers (run.sh's requirements-extras.txt). The tasks are those of
tests/evaluation/tasks and the model is the bundled one, so nothing is fetched.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

import serval

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed")
EVALUATION = Path(__file__).parents[1] / "evaluation"
sys.path.insert(0, str(EVALUATION))

import harness  # noqa: E402

import serval.lm_eval  # noqa: E402, F401

GENERATE = "serval_generate"


def ours(tasks: list[str], arguments: dict[str, Any] | None = None, **more: Any) -> Any:
    return harness.evaluate("serval", tasks, {"backend": "host", **(arguments or {})}, **more)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    """Of lm-eval's hf model with the same weights."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    torch.set_num_threads(1)

    def run(tasks: list[str], dtype: str, max_length: int | None = None, **more: Any) -> Any:
        arguments = {"pretrained": str(serval.bundled_model()), "dtype": dtype, "add_bos_token": False}
        arguments |= {} if max_length is None else {"max_length": max_length}
        return harness.evaluate("hf", tasks, arguments, device="cpu", batch_size=1, **more)

    yield run


def test_log_likelihoods_are_as_near_to_fp32_as_a_bf16_pass(theirs: Any) -> None:
    fp32, bf16 = (theirs(harness.LIKELIHOODS, dtype) for dtype in ("float32", "bfloat16"))
    found = ours(harness.LIKELIHOODS)
    error, limit = (harness.mean_distance(harness.likelihoods(run), harness.likelihoods(fp32)) for run in (found, bf16))
    assert 0 < error <= harness.GATE * limit
    assert harness.scores(found)["serval_choice"] == harness.scores(fp32)["serval_choice"]
    for metric in ("byte_perplexity,none", "bits_per_byte,none"):
        expected = harness.scores(fp32)["serval_rolling"][metric]
        assert harness.scores(found)["serval_rolling"][metric] == pytest.approx(expected, rel=0.005)


def test_greedy_texts_are_those_of_transformers(theirs: Any) -> None:
    found, expected = ours([GENERATE]), theirs([GENERATE], "float32")
    assert harness.answers(found, GENERATE) == harness.answers(expected, GENERATE)
    assert harness.scores(found) == harness.scores(expected)


def test_conversations_are_those_of_transformers(theirs: Any) -> None:
    found = ours(["serval_chat"], apply_chat_template=True)
    expected = theirs(["serval_chat"], "float32", apply_chat_template=True)
    assert harness.answers(found, "serval_chat") == harness.answers(expected, "serval_chat")


def test_scores_are_the_same_bits_at_any_concurrency() -> None:
    tasks = [*harness.LIKELIHOODS, GENERATE]
    alone, beside = (ours(tasks, {"max_num_seqs": count, "max_num_batched_tokens": 16 * count}) for count in (1, 16))
    for task in tasks:
        assert harness.answers(alone, task) == harness.answers(beside, task)


def test_long_texts_are_cut_into_windows(theirs: Any) -> None:
    runs = [ours(["serval_rolling"], {"max_model_len": 64}), theirs(["serval_rolling"], "float32", max_length=62)]
    found, expected = (harness.scores(run)["serval_rolling"]["byte_perplexity,none"] for run in runs)
    assert found == pytest.approx(expected, rel=0.005)
    assert found != harness.scores(ours(["serval_rolling"]))["serval_rolling"]["byte_perplexity,none"]


def test_the_command_knows_the_model(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "serval-lm-eval"
    arguments = ["run", "--model", "serval", "--model_args", "backend=host", "--tasks", "serval_choice"]
    paths = ["--include_path", str(harness.TASKS), "--output_path", str(tmp_path / "results")]
    result = subprocess.run(
        [str(command), *arguments, *paths], capture_output=True, text=True, timeout=280, cwd=harness.TASKS
    )
    assert result.returncode == 0, result.stderr
    (file,) = (tmp_path / "results").rglob("results_*.json")
    assert json.loads(file.read_text())["results"]["serval_choice"]["acc,none"] > 0.5
