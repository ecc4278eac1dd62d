"""Results of requests. Names are vLLM's; arrays are NumPy's and share the engine's memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from serval import _serval
from serval._errors import Error

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Logprob:
    """A likely token and the natural log of its probability under the model's own softmax."""

    token_id: int
    logprob: float


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
    """

    prompt: Any
    prompt_tokens: int
    cached_tokens: int
    outputs: list[CompletionOutput]


def completion_of(index: int, response: _serval.Response) -> CompletionOutput:
    """Raises the answer's `Error` if it ended with one."""
    if response.finish == "error":
        raise Error(response.error, response.error_exit_code)
    tops = [[Logprob(t.token, t.log_probability) for t in tokens] for tokens in response.top_logprobs]
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


def output_of(prompt: Any, responses: list[_serval.Response]) -> RequestOutput:
    return RequestOutput(
        prompt=prompt,
        prompt_tokens=responses[0].prompt_tokens,
        cached_tokens=responses[0].cached_tokens,
        outputs=[completion_of(i, response) for i, response in enumerate(responses)],
    )
