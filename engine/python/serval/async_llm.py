"""A loaded model for event loops: answers arrive as they grow."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any, AsyncIterator, Callable, Sequence

from serval import _engine, _serval
from serval._engine import Message, Prompt
from serval.outputs import CompletionOutput, Logprob, completion_of, prompt_logprobs_of
from serval.sampling_params import SamplingParams


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
        self._receivers: dict[int, Callable[[_serval.Event], None]] = {}
        self._thread = threading.Thread(target=self._deliver, daemon=True, name="serval-events")
        self._thread.start()

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
                    yield Piece(event)
            finally:
                handle.cancel()
        finally:
            del self._receivers[number]

    def _deliver(self) -> None:
        while batch := self._queue.take():
            for event in batch:
                receiver = self._receivers.get(event.request)
                if receiver is None:
                    continue
                try:
                    receiver(event)
                except RuntimeError:  # its event loop is closed
                    self._receivers.pop(event.request, None)


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
