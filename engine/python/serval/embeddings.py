"""Embeddings. Names are vLLM's; arrays are NumPy's and share the engine's memory."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

from serval import _serval
from serval._engine import Prompt, request_of
from serval._errors import USAGE, Error
from serval.outputs import FloatArray
from serval.sampling_params import SamplingParams


@dataclasses.dataclass(frozen=True)
class PoolingParams:
    """How a text's embedding is made of its pooled hidden state.

    Attributes:
        dimensions: only the first values, 1 to the model's hidden size; None: all. For models that are trained so that
            these suffice.
        normalize: scales the embedding to a length of 1; None: as the model's files say, else true.
    """

    dimensions: int | None = None
    normalize: bool | None = None


@dataclasses.dataclass(frozen=True)
class EmbeddingOutput:
    """An embedding.

    Attributes:
        embedding: float32 [dimensions].
    """

    embedding: FloatArray

    @property
    def hidden_size(self) -> int:
        """The number of its values."""
        return len(self.embedding)


@dataclasses.dataclass(frozen=True)
class EmbeddingRequestOutput:
    """A text's embedding.

    Attributes:
        prompt: text or token ids, as given.
        prompt_tokens: number of its tokens.
        cached_tokens: number of these that were in the KV cache already.
        outputs: the embedding.
    """

    prompt: Any
    prompt_tokens: int
    cached_tokens: int
    outputs: EmbeddingOutput


def require_pooling(info: _serval.ModelInfo) -> None:
    if not info.pooling:
        raise Error('embed: this LLM generates; load the model with runner="pooling"', USAGE)


def request_for(prompt: Prompt, params: PoolingParams) -> _serval.Request:
    request = request_of(prompt, SamplingParams(max_tokens=0))
    if params.dimensions is not None:
        if params.dimensions < 1:
            raise Error(f"dimensions: {params.dimensions}; limit: 1 to the model's hidden size", USAGE)
        request.dimensions = params.dimensions
    request.normalize = params.normalize
    return request


def params_for(count: int, params: PoolingParams | Sequence[PoolingParams] | None) -> list[PoolingParams]:
    if params is None or isinstance(params, PoolingParams):
        return [params or PoolingParams()] * count
    if len(params) != count:
        raise Error(f"pooling_params: {len(params)} for {count} prompts", USAGE)
    return list(params)


def output_of(prompt: Any, response: _serval.Response) -> EmbeddingRequestOutput:
    """Raises the request's `Error` if it ended with one."""
    if response.finish == "error":
        raise Error(response.error, response.error_exit_code)
    output = EmbeddingOutput(response.embedding)
    return EmbeddingRequestOutput(prompt, response.prompt_tokens, response.cached_tokens, output)
