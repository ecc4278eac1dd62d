"""A loaded model for event loops: answers arrive as they grow."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import weakref
from pathlib import Path
from typing import Any, AsyncGenerator, AsyncIterator, Callable, Sequence

from serval import _engine, _serval, _weights, embeddings
from serval._engine import Message, Prompt
from serval._weights import Running, Weights
from serval.embeddings import EmbeddingRequestOutput, PoolingParams
from serval.outputs import CompletionOutput, Logprob, completion_of, prompt_logprobs_of
from serval.sampling_params import SamplingParams


Receivers = dict[int, Callable[[_serval.Event], None]]


class AsyncLLM:
    """Like `LLM`; `generate()` and `chat()` are asynchronous iterators over pieces of text.

        async for piece in llm.generate("Once upon a time", SamplingParams(max_tokens=100)):
            print(piece.text, end="")
        print(piece.output.finish_reason)

    Leaving an iterator early cancels its request. Requests may come from several event loops.
    """

    def __init__(self, model: str | Path = "", **options: Any) -> None:
        self._engine = _engine.load(str(model), options)
        self._queue = _serval.EventQueue()
        self._ids = itertools.count()
        self._receivers: Receivers = {}
        # The thread keeps neither the object nor the engine alive.
        arguments = (self._queue, self._receivers)
        self._thread = threading.Thread(target=_deliver, args=arguments, daemon=True, name="serval-events")
        self._thread.start()
        weakref.finalize(self, _end, self._queue, self._thread)

    def generate(self, prompt: Prompt, sampling_params: SamplingParams | None = None) -> AsyncIterator[Piece]:
        """Continues a text or token ids."""
        params = sampling_params or _engine.default_params(self._engine)
        return self._stream(_engine.request_of(prompt, params))

    def chat(
        self, messages: Sequence[Message], sampling_params: SamplingParams | None = None
    ) -> AsyncIterator[Piece]:
        """Answers a conversation."""
        params = sampling_params or _engine.default_params(self._engine)
        return self._stream(_engine.chat_request_of(messages, params))

    async def embed(
        self, prompt: Prompt, *, pooling_params: PoolingParams | None = None
    ) -> EmbeddingRequestOutput:
        """As `LLM.embed`, for one prompt: `asyncio.gather` embeds several together."""
        embeddings.require_pooling(self.info)
        request = embeddings.request_for(prompt, pooling_params or PoolingParams())
        responses = [event.response async for event in self._events(request) if event.response is not None]
        return embeddings.output_of(prompt, responses[0])

    async def update_weights(
        self, weights: str | Weights, array: Any = None, *, running: Running = "finish"
    ) -> None:
        """As `LLM.update_weights`; the event loop runs on meanwhile."""
        await asyncio.to_thread(_weights.update, self._engine, weights, array, running)

    @property
    def info(self) -> _serval.ModelInfo:
        """The model's sizes, and what runs it."""
        return self._engine.info()

    def close(self) -> None:
        """Ends all requests and frees the model."""
        self._engine.close()
        self._queue.close()
        self._thread.join()

    async def _stream(self, request: _serval.Request) -> AsyncIterator[Piece]:
        # An iterator that is left early must cancel its request at once, not when it is collected.
        async with contextlib.aclosing(self._events(request)) as events:
            async for event in events:
                yield Piece(event)

    async def _events(self, request: _serval.Request) -> AsyncGenerator[_serval.Event, None]:
        """A request's events, up to the last of its answers."""
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[_serval.Event] = asyncio.Queue()
        number = next(self._ids)
        self._receivers[number] = lambda event: loop.call_soon_threadsafe(events.put_nowait, event)  # type: ignore
        try:
            handle = _serval.submit(self._engine, request, self._queue, number)
            left = request.n
            try:
                while left > 0:
                    event = await events.get()
                    left -= event.response is not None
                    yield event
            finally:
                handle.cancel()
        finally:
            del self._receivers[number]


def _end(queue: _serval.EventQueue, thread: threading.Thread) -> None:
    """When the object is gone, or the interpreter ends: the thread must not wait for Python's lock then."""
    queue.close()
    if thread is not threading.current_thread():
        thread.join()


def _deliver(queue: _serval.EventQueue, receivers: Receivers) -> None:
    while batch := queue.take():
        for event in batch:
            receiver = receivers.get(event.request)
            if receiver is None:
                continue
            try:
                receiver(event)
            except RuntimeError:  # its event loop is closed
                receivers.pop(event.request, None)


class Piece:
    """What a token adds to an answer.

    Attributes:
        index: of the answer among the request's `n`.
        text: whole characters; the pieces of an answer, joined, are its text.
        token_id: None for an answer that ends without another token.
        output: the whole answer, with its last piece; else None.
        prompt_logprobs: as `RequestOutput.prompt_logprobs`, with the last piece of answer 0; else None.
    """

    def __init__(self, event: _serval.Event) -> None:
        response = event.response
        self.index: int = event.answer
        self.text: str = event.text
        self.token_id: int | None = event.token if event.token >= 0 else None
        self.output: CompletionOutput | None = None if response is None else completion_of(event.answer, response)
        self.prompt_logprobs: list[dict[int, Logprob] | None] | None = None
        if response is not None and response.prompt_logprobs:
            self.prompt_logprobs = prompt_logprobs_of(response)
