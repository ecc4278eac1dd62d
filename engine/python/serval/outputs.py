"""Results of requests. Names are vLLM's; arrays are NumPy's and share the engine's memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from serval import _serval
from serval._errors import Error
from serval.sampling_params import SamplingParams

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Logprob:
    """A token and the natural log of its probability under the model's own softmax.

    Attributes:
        rank: 1 for the likeliest token in its place; None where it is not known.
    """

    token_id: int
    logprob: float
    rank: int | None = None


@dataclasses.dataclass(frozen=True)
class CompletionOutput:
    """One answer.

    Attributes:
        index: of the answer among the request's `n`.
        text: without the stop string or end token that ended it.
        token_ids: int32 [tokens], with those.
        token_logprobs: float32 [tokens], natural logs under the model's own softmax.
        top_logprobs: for each token the likeliest ones, descending; empty unless `logprobs` asked for them.
        finish_reason: "stop" (end token, stop string or stop token), "length", "cancelled" or "deadline".
        prompt_ms, decode_ms: until the first token; from there to the last.
    """

    index: int
    text: str
    token_ids: IntArray
    token_logprobs: FloatArray
    top_logprobs: list[list[Logprob]]
    finish_reason: str
    prompt_ms: float
    decode_ms: float

    @property
    def cumulative_logprob(self) -> float:
        """The sum of `token_logprobs`."""
        return float(self.token_logprobs.sum(dtype=np.float64))


@dataclasses.dataclass(frozen=True)
class RequestOutput:
    """A request's answers.

    Attributes:
        prompt: text, token ids or messages, as given.
        prompt_tokens: number of the prompt's tokens.
        cached_tokens: number of these that were in the KV cache already.
        outputs: `SamplingParams.n` answers.
        prompt_logprobs: for each token of the prompt the token itself and the likeliest ones in its place, by their
            ids; None for the first token and those before `prompt_logprobs_from`. None unless `prompt_logprobs` asked
            for them.
    """

    prompt: Any
    prompt_tokens: int
    cached_tokens: int
    outputs: list[CompletionOutput]
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None

    @property
    def prompt_token_logprobs(self) -> FloatArray:
        """float32 [tokens that have one]: the log-probabilities of the prompt's own tokens, in their order."""
        places = [place for place in self.prompt_logprobs or [] if place is not None]
        return np.array([next(iter(place.values())).logprob for place in places], dtype=np.float32)


def completion_of(index: int, response: _serval.Response) -> CompletionOutput:
    """Raises the answer's `Error` if it ended with one."""
    if response.finish == "error":
        raise Error(response.error, response.error_exit_code)
    tops = [_ranked(tokens) for tokens in response.top_logprobs]
    reason = "stop" if response.finish == "eos" else response.finish
    return CompletionOutput(
        index=index,
        text=response.text,
        token_ids=response.tokens,
        token_logprobs=response.log_probabilities,
        top_logprobs=tops,
        finish_reason=reason,
        prompt_ms=response.timings.prompt_ms,
        decode_ms=response.timings.decode_ms,
    )


def output_of(prompt: Any, responses: list[_serval.Response], params: SamplingParams) -> RequestOutput:
    first = responses[0]
    return RequestOutput(
        prompt=prompt,
        prompt_tokens=first.prompt_tokens,
        cached_tokens=first.cached_tokens,
        outputs=[completion_of(i, response) for i, response in enumerate(responses)],
        prompt_logprobs=None if params.prompt_logprobs is None else prompt_logprobs_of(first),
    )


def _ranked(likeliest: list[_serval.TopLogprob]) -> list[Logprob]:
    return [Logprob(t.token, t.log_probability, i + 1) for i, t in enumerate(likeliest)]


def prompt_logprobs_of(response: _serval.Response) -> list[dict[int, Logprob] | None]:
    """Of a request's first answer; those of the others have none."""
    places: list[dict[int, Logprob] | None] = [None] * (response.prompt_tokens - len(response.prompt_logprobs))
    for scored in response.prompt_logprobs:
        place = {scored.token: Logprob(scored.token, scored.log_probability)}
        place.update((t.token_id, t) for t in _ranked(scored.top_logprobs))
        places.append(place)
    return places
