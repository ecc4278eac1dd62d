"""Fixtures: the bundled model, loaded once. Run by tests/python/run.sh in an environment of its own."""

from typing import Iterator

import pytest

from serval import LLM


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    model = LLM(backend="host", context=512)
    yield model
    model.close()
