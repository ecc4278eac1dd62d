"""Fixtures: the bundled model, loaded once. Run by tests/python/run.sh in an environment of its own."""

import signal
from typing import Iterator

import pytest

from serval import LLM


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """A shell starts background jobs with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def llm() -> Iterator[LLM]:
    # Two threads of the host's interpreter that wait for each other are slow on a busy machine; bits are the same.
    model = LLM(backend="host", context=512, threads=1)
    yield model
    model.close()
