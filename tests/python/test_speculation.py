"""Drafts of tokens do not change what is generated."""

import pytest

import serval
from serval import _engine

PROMPT = "The bird said: come with me. The owl said: come with"


def test_tokens_are_those_without_drafts() -> None:
    drafted = serval.LLM(backend="host", speculative_config={"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1})
    plain = serval.LLM(backend="host")
    for temperature in (0.0, 0.8):
        params = serval.SamplingParams(temperature=temperature, max_tokens=40, ignore_eos=True, seed=5)
        one, other = (llm.generate(PROMPT, params)[0].outputs[0] for llm in (drafted, plain))
        assert list(one.token_ids) == list(other.token_ids)
    assert drafted.stats.drafts.drafted > 0
    assert sum(drafted.stats.drafts.accepted_at) == drafted.stats.drafts.accepted
    assert plain.stats.drafts.drafted == 0


@pytest.mark.parametrize("method", [{}, {"method": "draft_model"}, {"method": "model"}])
def test_a_model_drafts(method: dict[str, str]) -> None:
    bundled = str(_engine.bundled_model())
    drafted = serval.LLM(backend="host", speculative_config={"model": bundled, "num_speculative_tokens": 3, **method})
    plain = serval.LLM(backend="host")
    params = serval.SamplingParams(temperature=0.8, max_tokens=24, ignore_eos=True, seed=5)
    one, other = (llm.generate(PROMPT, params)[0].outputs[0] for llm in (drafted, plain))
    assert list(one.token_ids) == list(other.token_ids)
    assert drafted.stats.drafts.accepted == drafted.stats.drafts.drafted > 0
    assert drafted.stats.drafts.ms > 0


@pytest.mark.parametrize("config", [{"method": "eagle"}, {"foo": 1}, {"num_speculative_tokens": "4"}, {"num_speculative_tokens": 16}])
def test_a_wrong_config_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(serval.Error):
        serval.LLM(backend="host", speculative_config={"method": "ngram", **config})
