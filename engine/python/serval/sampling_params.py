"""How an answer's tokens are drawn. Names and meanings are vLLM's."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Mapping, Sequence

from serval import _serval
from serval._errors import USAGE, Error


@dataclasses.dataclass
class SamplingParams:
    """Parameters of one request. Defaults draw from the model's own distribution.

    Attributes:
        n: answers to the prompt, which is read once. 1 to 128.
        temperature: 0 takes the likeliest token; at most 100.
        top_p: in (0, 1]; 1 is off.
        top_k: 0 or -1 is off.
        min_p: in [0, 1]; 0 is off.
        presence_penalty: in [-2, 2], subtracted once for tokens that the answer already has.
        frequency_penalty: in [-2, 2], subtracted for each time that the answer has the token.
        repetition_penalty: in (0, 10]; 1 is off. For tokens of the prompt, too.
        seed: random numbers depend only on it, the answer's index and the position. None: 0.
        stop: the text ends before the first of these strings.
        stop_token_ids: an answer ends with the first of these, and its text before it.
        ignore_eos: the model's end tokens do not end the answer.
        max_tokens: limit for new tokens; None: until the context is full. 0 only reads the prompt.
        min_tokens: before so many tokens, none that ends the answer is drawn.
        logprobs: for each token, the log-probabilities of this many likeliest tokens, 0 to 20; None: none.
        prompt_logprobs: as `logprobs`, for the tokens of the prompt; None: none.
        prompt_logprobs_from: index of the first of the prompt's tokens that has one, 1 or more. What comes before it
            may be in the KV cache.
        skip_special_tokens: the text leaves control tokens out.
        logit_bias: added to the logits of these tokens, each in [-100, 100].
        json_schema: the text is a value that is valid under this JSON schema (a dict or its text).
        json_object: the text is a JSON object.
        deadline_ms: answers that are not complete after so many milliseconds end.
        priority: smaller values are served first.
        speculative: False: no drafts (`speculative_config` of `LLM`). They never change the answer.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprobs_from: int = 1
    skip_special_tokens: bool = True
    logit_bias: Mapping[int, float] | None = None
    json_schema: Mapping[str, Any] | str | None = None
    json_object: bool = False
    deadline_ms: float | None = None
    priority: int = 0
    speculative: bool = True

    def _request(self) -> _serval.Request:
        """The engine's request, without a prompt. Raises `Error` for values that its types do not hold."""
        request = _serval.Request()
        for target, values in ((request.sampling, self._sampling()), (request, self._fields())):
            for name, value in values.items():
                try:
                    setattr(target, name, value)
                except (TypeError, OverflowError) as error:
                    raise Error(f"{name}: {value!r} is not a value of its type or range", USAGE) from error
        return request

    def _sampling(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0 if self.top_k == -1 else self.top_k,
            "min_p": self.min_p,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "repetition_penalty": self.repetition_penalty,
            "repeat_last_n": -1,
            "seed": self.seed or 0,
        }

    def _fields(self) -> dict[str, Any]:
        stop = [self.stop] if isinstance(self.stop, str) else list(self.stop or [])
        bias = [_serval.LogitBias(token, value) for token, value in (self.logit_bias or {}).items()]
        return {
            "n": self.n,
            "stop": stop,
            "stop_token_ids": list(self.stop_token_ids or []),
            "ignore_eos": self.ignore_eos,
            "speculative": self.speculative,
            "max_tokens": -1 if self.max_tokens is None else self.max_tokens,
            "min_tokens": self.min_tokens,
            "top_logprobs": self.logprobs or 0,
            "prompt_logprobs": self.prompt_logprobs,
            "prompt_logprobs_from": self.prompt_logprobs_from,
            "skip_special_tokens": self.skip_special_tokens,
            "logit_bias": bias,
            "json_schema": self._schema_text(),
            "json_object": self.json_object,
            "deadline_ms": self.deadline_ms,
            "priority": self.priority,
        }

    def _schema_text(self) -> str:
        if self.json_schema is None:
            return ""
        return self.json_schema if isinstance(self.json_schema, str) else json.dumps(self.json_schema)
