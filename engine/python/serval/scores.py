"""Log-probabilities of texts, as evaluations use them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Sequence

import numpy as np

from serval import _engine, _serval
from serval._errors import USAGE, Error
from serval.outputs import FloatArray, IntArray

Text = str | Sequence[int] | tuple[str, str]

_SPACE = " \t\r\n"


@dataclasses.dataclass(frozen=True)
class TextScore:
    """What a model gives a text.

    Attributes:
        token_ids: int32 [tokens]: those that are scored.
        token_logprobs: float32 [tokens], natural logs under the model's own softmax, given all tokens before.
        is_greedy: each token is the likeliest in its place.
    """

    token_ids: IntArray
    token_logprobs: FloatArray
    is_greedy: bool

    @property
    def logprob(self) -> float:
        """The sum of `token_logprobs`."""
        return float(self.token_logprobs.sum(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token."""
        return math.exp(-self.logprob / len(self.token_ids))


@dataclasses.dataclass(frozen=True)
class ScoredTokens:
    """Tokens of a request, of which those from `first` on, 1 or more, are scored."""

    tokens: list[int]
    first: int


def prefix_token(engine: _serval.Engine) -> int | None:
    """What comes before a text's first token: BOS, or the end of the text before it; None: the model has neither."""
    info = engine.info()
    ids = engine.tokenize(info.bos_token or info.eos_token, True, False)
    return ids[0] if ids else None


def longest(engine: _serval.Engine) -> int:
    """Tokens of a request that is scored."""
    return engine.info().context - 1


def windows_of(engine: _serval.Engine, text: Text) -> list[ScoredTokens]:
    """The requests for a text: one, or for a long one several, as `serval score` makes them."""
    if isinstance(text, tuple) and len(text) == 2 and isinstance(text[0], str):
        scored = _continuation(engine, text[0], text[1])
        if len(scored.tokens) > longest(engine):
            limit = f"limit: {longest(engine)} (context {longest(engine) + 1})"
            raise Error(f"prompt and continuation: {len(scored.tokens)} tokens; {limit}", USAGE)
        return [scored]
    if isinstance(text, str):
        return _windows(_continuation(engine, "", text), longest(engine))
    return _windows(_after_prefix(engine, [int(token) for token in text], 0), longest(engine))


def _continuation(engine: _serval.Engine, prompt: str, rest: str) -> ScoredTokens:
    """White space at the prompt's end belongs to what follows, as in lm-eval."""
    bare = prompt.rstrip(_SPACE)
    tokens = engine.tokenize(prompt + rest, False, True)
    return _after_prefix(engine, tokens, min(len(engine.tokenize(bare, False, True)), len(tokens)))


def _after_prefix(engine: _serval.Engine, tokens: list[int], first: int) -> ScoredTokens:
    prefix = prefix_token(engine)
    if first == 0 and prefix is not None and tokens[:1] != [prefix]:
        tokens = [prefix, *tokens]
    first = max(first, 1)
    if first >= len(tokens):
        raise Error("text: no token to score; expected at least 1", USAGE)
    return ScoredTokens(tokens, first)


def _windows(scored: ScoredTokens, most: int) -> list[ScoredTokens]:
    """The first window has what comes before the text, later ones a token before theirs, and the last as many as fit."""
    tokens, done = scored.tokens, scored.first
    windows: list[ScoredTokens] = []
    while done < len(tokens):
        before = 1 if windows else done
        end = min(done + most - before, len(tokens))
        begin = done - before if end < len(tokens) else max(end - most, 0)
        windows.append(ScoredTokens(tokens[begin:end], done - begin))
        done = end
    return windows


def request_of(scored: ScoredTokens) -> _serval.Request:
    request = _serval.Request()
    request.prompt_ids = scored.tokens
    request.max_tokens = 0
    request.prompt_logprobs = 1
    request.prompt_logprobs_from = scored.first
    return request


def score_of(responses: Sequence[_serval.Response]) -> TextScore:
    """The score of a text from the answers for its windows. Raises the `Error` of an answer that ended with one."""
    for response in responses:
        if response.finish == "error":
            raise Error(response.error, response.error_exit_code)
        if response.finish == "cancelled":
            raise Error("text: cancelled before it was scored")
    tokens: list[Any] = [token for response in responses for token in response.prompt_logprobs]
    return TextScore(
        token_ids=np.array([t.token for t in tokens], dtype=np.int32),
        token_logprobs=np.array([t.log_probability for t in tokens], dtype=np.float32),
        is_greedy=all(t.top_logprobs[0].token == t.token for t in tokens),
    )


def run(engine: _serval.Engine, texts: Sequence[Sequence[ScoredTokens]], on_change: Any = None) -> list[TextScore]:
    """Scores texts that are windows, all together."""
    requests = [request_of(window) for windows in texts for window in windows]
    responses = iter(_serval.run(engine, requests, on_change))
    return [score_of([next(responses)[0] for _ in windows]) for windows in texts]


def texts_of(texts: Text | Sequence[Text]) -> list[Text]:
    """One text, or several. A pair is a prompt and its continuation; a list of integers is one text."""
    if isinstance(texts, (str, tuple)):
        return [texts]
    listed = list(texts)
    return [listed] if _engine.are_ids(listed) else listed  # type: ignore[list-item, return-value]
