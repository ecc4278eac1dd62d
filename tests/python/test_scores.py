"""LLM.score: log-probabilities of texts and continuations, the same as `serval score`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from serval import LLM, Error, SamplingParams
from serval.scores import Text

TEXTS: list[Text] = ["Once upon a time there was a fox.", ("The fox drank a cup of ", "tea"), ("", "The end")]


def check_against_command(llm: LLM, texts: list[Text]) -> None:
    lines = [{"text": text} if isinstance(text, str) else dict(zip(("prompt", "continuation"), text)) for text in texts]
    command = os.path.join(os.path.dirname(sys.executable), "serval")
    result = subprocess.run(
        [command, "score", "-f", "-", "--tokens", "--backend", "host", "-c", str(llm.info.context)],
        input="\n".join(json.dumps(line) for line in lines), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for score, line in zip(llm.score(texts), map(json.loads, result.stdout.splitlines()), strict=True):
        assert score.token_ids.tolist() == line["token_ids"]
        assert score.token_logprobs.tolist() == np.array(line["log_probabilities"], np.float32).tolist()
        assert score.logprob == pytest.approx(line["log_probability"], rel=1e-6)
        assert score.perplexity == pytest.approx(line["perplexity"], rel=1e-5)
        assert score.is_greedy == line["is_greedy"]


def test_scores_are_those_of_the_command(llm: LLM) -> None:
    check_against_command(llm, TEXTS)


def test_one_text_and_token_ids(llm: LLM) -> None:
    text = "Once upon a time there was a fox."
    (by_text,), (by_ids,) = llm.score(text), llm.score(llm.tokenize(text))
    assert by_text.token_logprobs.tolist() == by_ids.token_logprobs.tolist()


def test_what_the_model_writes_is_greedy(llm: LLM) -> None:
    prompt = "Once upon a time"
    answer = llm.generate(prompt, SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].text
    likeliest, other = llm.score([(prompt, answer), (prompt, " zebras")])
    assert likeliest.is_greedy and not other.is_greedy
    assert likeliest.logprob / len(likeliest.token_ids) > other.logprob / len(other.token_ids)


def test_long_texts_are_scored_in_windows() -> None:
    text = "The little dog ran to the big tree. " * 20
    with LLM(backend="host", context=64) as short, LLM(backend="host", context=512) as long:
        (cut,), (whole,) = short.score(text), long.score(text)
        assert cut.token_ids.tolist() == whole.token_ids.tolist()
        assert cut.token_logprobs[:60].tolist() == whole.token_logprobs[:60].tolist()
        check_against_command(short, [text])
        with pytest.raises(Error, match=r"prompt and continuation: \d+ tokens; limit: 63 \(context 64\)"):
            short.score((text, text))


def test_texts_without_tokens_are_errors(llm: LLM) -> None:
    for text in ("", ("The end", ""), []):
        with pytest.raises(Error, match="no token to score"):
            llm.score([text])
