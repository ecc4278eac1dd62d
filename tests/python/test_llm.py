"""LLM: text, tokens, log-probabilities, errors."""

import json
import signal
import threading
import time

import numpy as np
import pytest

from serval import LLM, Error, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)


def test_generates_text_and_tokens(llm: LLM) -> None:
    (output,) = llm.generate("Once upon a time", GREEDY)
    (answer,) = output.outputs
    assert answer.text and answer.finish_reason == "length"
    assert answer.token_ids.dtype == np.int32 and len(answer.token_ids) == 20
    assert answer.token_logprobs.dtype == np.float32 and (answer.token_logprobs <= 0).all()
    assert answer.cumulative_logprob == pytest.approx(answer.token_logprobs.sum(), rel=1e-5)
    assert output.prompt_tokens == len(llm.tokenize("Once upon a time"))


def test_outputs_are_in_the_order_of_the_prompts(llm: LLM) -> None:
    prompts = [f"There were {n} cats" for n in ("two", "three", "four", "five", "six")]
    together = llm.generate(prompts, GREEDY)
    alone = [llm.generate(p, GREEDY)[0] for p in prompts]
    assert [o.prompt for o in together] == prompts
    assert [o.outputs[0].text for o in together] == [o.outputs[0].text for o in alone]


def test_takes_token_ids_and_vllms_dictionaries(llm: LLM) -> None:
    ids = llm.tokenize("Once upon a time")
    texts = [
        llm.generate(prompt, GREEDY)[0].outputs[0].text
        for prompt in ("Once upon a time", ids, np.array(ids), {"prompt": "Once upon a time"}, {"prompt_token_ids": ids})
    ]
    assert len(set(texts)) == 1


def test_params_may_differ_by_prompt(llm: LLM) -> None:
    params = [SamplingParams(temperature=0, max_tokens=n) for n in (1, 7)]
    outputs = llm.generate(["A", "A"], params)
    assert [len(o.outputs[0].token_ids) for o in outputs] == [1, 7]
    with pytest.raises(Error, match="sampling_params: 2 for 1 prompts"):
        llm.generate(["A"], params)


def test_n_answers_differ_and_repeat_with_the_seed(llm: LLM) -> None:
    params = SamplingParams(n=3, temperature=1, max_tokens=12, seed=5)
    first, second = (llm.generate("The dog", params)[0].outputs for _ in range(2))
    assert [a.text for a in first] == [a.text for a in second]
    assert len({a.text for a in first}) > 1 and [a.index for a in first] == [0, 1, 2]


def test_top_logprobs(llm: LLM) -> None:
    (output,) = llm.generate("The dog", SamplingParams(temperature=0, max_tokens=4, logprobs=3))
    answer = output.outputs[0]
    for token, logprob, top in zip(answer.token_ids, answer.token_logprobs, answer.top_logprobs):
        assert len(top) == 3 and top[0].token_id == token and top[0].logprob == logprob


def test_prompt_logprobs_are_those_of_the_same_tokens_when_generated(llm: LLM) -> None:
    prompt = llm.tokenize("Once upon a time")
    made = llm.generate({"prompt_token_ids": prompt}, SamplingParams(temperature=0, max_tokens=10, logprobs=3))[0].outputs[0]
    whole = prompt + made.token_ids.tolist()
    (output,) = llm.generate({"prompt_token_ids": whole}, SamplingParams(max_tokens=0, prompt_logprobs=3))
    assert output.prompt_logprobs is not None and len(output.prompt_logprobs) == len(whole)
    assert output.prompt_logprobs[0] is None and len(output.outputs[0].token_ids) == 0
    np.testing.assert_array_equal(output.prompt_token_logprobs[len(prompt) - 1 :], made.token_logprobs)
    for token, place, top in zip(made.token_ids, output.prompt_logprobs[len(prompt) :], made.top_logprobs):
        assert place is not None and list(place)[0] == token and list(place.values()) == top
        assert [likely.rank for likely in place.values()] == [1, 2, 3]


def test_prompt_logprobs_may_begin_later(llm: LLM) -> None:
    text = "Once upon a time there was a fox"
    whole, end, none = llm.generate(
        [text] * 3,
        [
            SamplingParams(max_tokens=1, prompt_logprobs=0),
            SamplingParams(max_tokens=1, prompt_logprobs=0, prompt_logprobs_from=5),
            SamplingParams(max_tokens=1),
        ],
    )
    assert whole.prompt_logprobs is not None and end.prompt_logprobs is not None and none.prompt_logprobs is None
    assert end.prompt_logprobs == [None] * 5 + whole.prompt_logprobs[5:]
    assert len(none.prompt_token_logprobs) == 0
    with pytest.raises(Error, match="prompt_logprobs: 21"):
        llm.generate(text, SamplingParams(prompt_logprobs=21))
    with pytest.raises(Error, match="prompt_logprobs_from: 0"):
        llm.generate(text, SamplingParams(prompt_logprobs=1, prompt_logprobs_from=0))


def test_json_schema(llm: LLM) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    (output,) = llm.generate("Answer: ", SamplingParams(temperature=0, max_tokens=100, json_schema=schema))
    assert isinstance(json.loads(output.outputs[0].text)["n"], int)


def test_stop_and_stop_token_ids(llm: LLM) -> None:
    whole = llm.generate("Once upon a time", GREEDY)[0].outputs[0]
    word = whole.text.split()[3]
    cut = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=20, stop=word))[0].outputs[0]
    assert cut.text == whole.text[: whole.text.index(word)] and cut.finish_reason == "stop"
    token = int(whole.token_ids[5])
    ended = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=20, stop_token_ids=[token]))
    assert token not in ended[0].outputs[0].token_ids[:-1]


def test_detokenize_is_the_way_back(llm: LLM) -> None:
    assert llm.detokenize(llm.tokenize("Once upon a time")).strip() == "Once upon a time"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (SamplingParams(temperature=-1), "temperature"),
        (SamplingParams(top_p=0), "top_p"),
        (SamplingParams(n=0), "n"),
        (SamplingParams(n="two"), "n: 'two'"),  # type: ignore[arg-type]
        (SamplingParams(seed=-1), "seed: -1"),
        (SamplingParams(logit_bias={10**6: 1}), "logit_bias"),
        (SamplingParams(json_schema="{"), "schema"),
    ],
)
def test_wrong_parameters_are_usage_errors(llm: LLM, params: SamplingParams, message: str) -> None:
    with pytest.raises(Error, match=message) as caught:
        llm.generate("A", params)
    assert (caught.value.kind, caught.value.exit_code) == ("usage", 2)


def test_wrong_options_and_models_are_errors() -> None:
    with pytest.raises(Error, match="contxt: no such option"):
        LLM(contxt=5)
    with pytest.raises(Error, match="context: 'long'"):
        LLM(context="long")
    with pytest.raises(Error) as caught:
        LLM("no/such-model")
    assert (caught.value.kind, caught.value.exit_code) == ("runtime", 1)
    with pytest.raises(Error, match="context"):
        LLM(backend="host", max_model_len=10**6)


def test_weights_may_have_8_bits(llm: LLM) -> None:
    with LLM(backend="host", context=512, weights="fp8", lm_head="fp8") as in_8_bits:
        (output,) = in_8_bits.generate("Once upon a time", GREEDY)
    (in_bf16,) = llm.generate("Once upon a time", GREEDY)
    assert len(output.outputs[0].token_ids) == 20
    assert list(output.outputs[0].token_logprobs) != list(in_bf16.outputs[0].token_logprobs)
    with pytest.raises(Error, match="weights: 'fp9'; expected one of auto, bf16, fp8"):
        LLM(backend="host", weights="fp9")


def test_a_closed_model_is_an_error() -> None:
    with LLM(backend="host", context=64) as llm:
        llm.generate("A", SamplingParams(max_tokens=1))
    with pytest.raises(Error, match="closed"):
        llm.generate("A")


def test_threads_share_the_model(llm: LLM) -> None:
    texts: list[str] = []
    expected = llm.generate("Once upon a time", GREEDY)[0].outputs[0].text
    threads = [
        threading.Thread(target=lambda: texts.append(llm.generate("Once upon a time", GREEDY)[0].outputs[0].text))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 8


def test_other_threads_run_meanwhile(llm: LLM) -> None:
    """The lock of the interpreter is free while the engine runs."""
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    llm.generate(["Once upon a time"] * 32, SamplingParams(max_tokens=100, ignore_eos=True))
    done.set()
    thread.join()
    assert counted > 20


def test_ctrl_c_cancels(llm: LLM) -> None:
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["Once"] * 500, SamplingParams(max_tokens=400, ignore_eos=True))
    assert time.monotonic() - begin < 30
    deadline = time.monotonic() + 30
    while llm.stats.running + llm.stats.waiting > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert llm.stats.running + llm.stats.waiting == 0


def test_progress_counts_answers(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    llm.generate(["A", "B"], SamplingParams(n=2, max_tokens=2), use_tqdm=True)
    assert "4/4" in capsys.readouterr().err
