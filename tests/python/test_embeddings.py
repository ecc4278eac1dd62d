"""LLM.embed and AsyncLLM.embed: shapes, what the command prints, and errors."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Iterator

import numpy as np
import pytest

import serval
from serval import AsyncLLM, LLM, PoolingParams

TEXTS = ["Once upon a time", "The cat sat on the mat.", "x"]


@pytest.fixture(scope="module")
def embedder() -> Iterator[LLM]:
    with LLM(runner="pooling", threads=1) as llm:
        yield llm


def test_embeddings_are_those_of_the_command(embedder: LLM) -> None:
    command = os.path.join(os.path.dirname(sys.executable), "serval")
    prompts = [part for text in TEXTS for part in ("-p", text)]
    result = subprocess.run([command, "embed", "--backend", "host", *prompts], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    for output, line in zip(embedder.embed(TEXTS), map(json.loads, result.stdout.splitlines()), strict=True):
        assert output.outputs.embedding.tolist() == np.array(line["embedding"], np.float32).tolist()
        assert output.prompt_tokens == line["tokens"]


def test_embeddings_have_a_length_of_one(embedder: LLM) -> None:
    outputs = embedder.embed(TEXTS)
    for text, output in zip(TEXTS, outputs):
        values = output.outputs.embedding
        assert values.dtype == np.float32 and values.shape == (embedder.info.hidden_size,)
        assert output.outputs.hidden_size == embedder.info.hidden_size
        assert np.linalg.norm(values) == pytest.approx(1, abs=1e-6)
        assert output.prompt == text and output.prompt_tokens == len(embedder.tokenize(text))
    assert embedder.info.pooling == "last" and embedder.info.normalizes


def test_a_text_and_its_ids_are_the_same(embedder: LLM) -> None:
    (text,) = embedder.embed(TEXTS[0])
    (ids,) = embedder.embed(embedder.tokenize(TEXTS[0]))
    assert np.array_equal(text.outputs.embedding, ids.outputs.embedding)


def test_pooling_params(embedder: LLM) -> None:
    whole, raw, part = (
        embedder.embed(TEXTS[1], pooling_params=params)[0].outputs.embedding
        for params in (None, PoolingParams(normalize=False), PoolingParams(dimensions=16))
    )
    assert np.allclose(whole, raw / np.linalg.norm(raw), atol=1e-6)
    assert np.allclose(part, raw[:16] / np.linalg.norm(raw[:16]), atol=1e-6)
    assert embedder.embed(TEXTS[:2], pooling_params=[PoolingParams(4), PoolingParams(8)])[1].outputs.hidden_size == 8


def test_event_loops_get_the_same(embedder: LLM) -> None:
    async def embed_all() -> list[serval.EmbeddingRequestOutput]:
        llm = AsyncLLM(runner="pooling", threads=1)
        try:
            with pytest.raises(serval.Error, match="dimensions"):
                await llm.embed("x", pooling_params=PoolingParams(0))
            return await asyncio.gather(*(llm.embed(text) for text in TEXTS))
        finally:
            llm.close()

    for one, other in zip(asyncio.run(embed_all()), embedder.embed(TEXTS), strict=True):
        assert np.array_equal(one.outputs.embedding, other.outputs.embedding)
        assert one.prompt == other.prompt and one.prompt_tokens == other.prompt_tokens


def test_pools_as_asked() -> None:
    with LLM(runner="pooling", pooling="mean", threads=1) as mean:
        assert mean.info.pooling == "mean"
        assert mean.embed("x")[0].outputs.hidden_size == mean.info.hidden_size


def test_errors(embedder: LLM) -> None:
    with pytest.raises(serval.Error, match="max_tokens.*computes embeddings"):
        embedder.generate("x")
    for dimensions in (0, embedder.info.hidden_size + 1):
        with pytest.raises(serval.Error, match="dimensions"):
            embedder.embed("x", pooling_params=PoolingParams(dimensions))
    with pytest.raises(serval.Error, match="1 for 2 prompts"):
        embedder.embed(["x", "y"], pooling_params=[PoolingParams()])
    with pytest.raises(serval.Error, match="runner"):
        LLM(runner="embed")
    with LLM(threads=1) as generates, pytest.raises(serval.Error, match='runner="pooling"'):
        generates.embed("x")
