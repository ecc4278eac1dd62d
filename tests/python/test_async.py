"""AsyncLLM: pieces as they come, several requests in one loop, cancelling."""

import asyncio
from typing import Iterator

import pytest

from serval import LLM, AsyncLLM, Error, SamplingParams
from serval.async_llm import Piece


@pytest.fixture(scope="module")
def streaming() -> Iterator[AsyncLLM]:
    model = AsyncLLM(backend="host", context=512, threads=1)
    yield model
    model.close()


async def collect(llm: AsyncLLM, prompt: str, params: SamplingParams) -> tuple[str, str]:
    text, reason = "", ""
    async for piece in llm.generate(prompt, params):
        text += piece.text
        if piece.output is not None:
            assert piece.output.text == text
            reason = piece.output.finish_reason
    return text, reason


def test_pieces_are_the_text(streaming: AsyncLLM, llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=20)
    text, reason = asyncio.run(collect(streaming, "Once upon a time", params))
    assert text == llm.generate("Once upon a time", params)[0].outputs[0].text
    assert reason == "length"


def test_requests_of_a_loop_run_together(streaming: AsyncLLM) -> None:
    async def run() -> list[tuple[str, str]]:
        params = SamplingParams(temperature=0, max_tokens=20)
        return await asyncio.gather(*(collect(streaming, f"{n} cats", params) for n in range(12)))

    answers = asyncio.run(run())
    assert len(answers) == 12 and all(reason == "length" for _, reason in answers)


def test_leaving_cancels(streaming: AsyncLLM) -> None:
    async def run() -> None:
        pieces = streaming.generate("Once", SamplingParams(max_tokens=400, ignore_eos=True))
        async for _ in pieces:
            break
        await pieces.aclose()  # type: ignore[attr-defined]
        text, _ = await collect(streaming, "Once", SamplingParams(temperature=0, max_tokens=4))
        assert text

    asyncio.run(run())


def test_prompt_logprobs_come_with_the_last_piece(streaming: AsyncLLM, llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=2)

    async def run() -> list[Piece]:
        return [piece async for piece in streaming.generate("Once upon a time", params)]

    pieces = asyncio.run(run())
    assert [piece.prompt_logprobs is None for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert pieces[-1].prompt_logprobs == llm.generate("Once upon a time", params)[0].prompt_logprobs


def test_wrong_parameters_are_errors(streaming: AsyncLLM) -> None:
    with pytest.raises(Error, match="temperature"):
        asyncio.run(collect(streaming, "A", SamplingParams(temperature=-1)))
