"""A loaded model for scripts: every call returns when its requests are complete."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Sequence

from serval import _engine, _serval, _weights, embeddings, scores
from serval._engine import Message, Prompt
from serval._errors import USAGE, Error
from serval._weights import Running, Weights
from serval.embeddings import EmbeddingRequestOutput, PoolingParams
from serval.outputs import RequestOutput, output_of
from serval.sampling_params import SamplingParams
from serval.scores import Text, TextScore
from serval.trace import Trace, read_trace


class LLM:
    """A model in memory, its compiled program, and the thread that runs it.

    Args:
        model: a Hugging Face directory, a GGUF file, "ORG/NAME" in Hugging Face's cache, or a preset's name together
            with `random_weights`. Empty: the bundled model.
        options: by name, those of the C++ API's `EngineOptions` (docs/python.md lists them): `context`,
            `max_sequences`, `max_batch_tokens`, `kv_cache_memory`, `batch_invariant`, `backend`, `threads`, `gpus`,
            `random_weights`, `weights` and `lm_head` ("fp8", "int4": 8 or 4 bits), `activations` ("16bit", "8bit"), `trace_tokens`, …; or by
            vLLM's names `max_model_len`, `max_num_seqs`,
            `max_num_batched_tokens`, `tensor_parallel_size`, `runner` ("pooling": for `embed`; "generate"; "auto": for `embed`
            if the model's files say how its embeddings are made), `speculative_config` ({"method": "ngram",
            "num_speculative_tokens": 7, "prompt_lookup_min": 2, "prompt_lookup_max": 4}, or {"model": a smaller model of the
            same vocabulary}). `pooling` ("last", "mean", "cls")
            replaces what the files say.

    All calls are thread-safe; requests of several threads run together. Ctrl-C cancels a call's requests and raises
    KeyboardInterrupt. A process that is forked cannot use its parent's LLM and gets an `Error`.

    Raises:
        Error: for options out of range, a model that is missing or damaged, or too little memory.
    """

    def __init__(self, model: str | Path = "", **options: Any) -> None:
        self._engine = _engine.load(str(model), options)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = False,
    ) -> list[RequestOutput]:
        """Continues the prompts, all together, and returns their outputs in the same order.

        A prompt is a text or a list of token ids. `sampling_params` is for all prompts or one for each; None takes
        the checkpoint's own.
        """
        listed = _prompts(prompts)
        params = _engine.params_for(len(listed), sampling_params, self._engine)
        requests = [_engine.request_of(prompt, p) for prompt, p in zip(listed, params)]
        return self._run(listed, params, requests, use_tqdm)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = False,
    ) -> list[RequestOutput]:
        """Answers a conversation, or several together. A message has "role" and "content"."""
        conversations = _conversations(messages)
        params = _engine.params_for(len(conversations), sampling_params, self._engine)
        requests = [_engine.chat_request_of(c, p) for c, p in zip(conversations, params)]
        return self._run(conversations, params, requests, use_tqdm)

    def score(self, texts: Text | Sequence[Text], *, use_tqdm: bool = False) -> list[TextScore]:
        """How likely the model finds texts: `serval score`.

        A text is a string, a list of token ids, or a pair of a prompt and its continuation, of which only the
        continuation is scored. A string longer than the context is scored in windows, each token once. The model's BOS
        comes before a text or, where it has none, its end-of-text token.

        Raises:
            Error: for a prompt and continuation that do not fit into the context, and for a text without tokens.
        """
        windows = [scores.windows_of(self._engine, text) for text in scores.texts_of(texts)]
        with _progress(sum(map(len, windows)), use_tqdm) as on_change:
            return scores.run(self._engine, windows, on_change)

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: bool = False,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
    ) -> list[EmbeddingRequestOutput]:
        """Embeddings of the prompts, all together and in the same order. Needs `LLM(…, runner="pooling")`.

        A prompt is a text or a list of token ids. `pooling_params` is for all prompts or one for each.

        Raises:
            Error: for a prompt that is longer than the context, and for an LLM that generates.
        """
        embeddings.require_pooling(self.info)
        listed = _prompts(prompts)
        params = embeddings.params_for(len(listed), pooling_params)
        requests = [embeddings.request_for(prompt, p) for prompt, p in zip(listed, params)]
        with _progress(len(requests), use_tqdm) as on_change:
            responses = _serval.run(self._engine, requests, on_change)
        return [embeddings.output_of(prompt, response[0]) for prompt, response in zip(listed, responses)]

    def tokenize(self, text: str, *, add_special_tokens: bool = True, special: bool = True) -> list[int]:
        """Ids of a text. Control tokens that it names mean these tokens if `special`, else they are text."""
        return self._engine.tokenize(text, special, add_special_tokens)

    def detokenize(self, token_ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids, with control tokens if `special`."""
        return self._engine.detokenize([int(t) for t in token_ids], special)

    def get_default_sampling_params(self) -> SamplingParams:
        """Those of the checkpoint's generation_config.json."""
        return _engine.default_params(self._engine)

    @property
    def info(self) -> _serval.ModelInfo:
        """The model's sizes, and what runs it."""
        return self._engine.info()

    @property
    def stats(self) -> _serval.EngineStats:
        """The engine's state, and counters since it was loaded."""
        return self._engine.stats()

    def update_weights(
        self, weights: str | Weights, array: Any = None, *, running: Running = "finish"
    ) -> None:
        """Replaces weights: `update_weights(name, array)`, or a state dict, or pairs of names and arrays.

        The engine then computes the same bits as one that loads a checkpoint with these weights: they are rounded to
        bf16 and, with `LLM(weights="fp8")` or "int4", quantised as in loading, and prompts that the old weights read are read
        again.

        Args:
            weights: a tensor's name in the checkpoint (Hugging Face's, such as "model.norm.weight"), or names and
                arrays of all or some tensors. A tied LM head changes with the embedding, under either name.
            array: of PyTorch, NumPy (bfloat16: that of ml_dtypes), JAX, or another that supports DLPack; bfloat16,
                float16 or float32, [rows, columns] of a matrix or [size] of a vector. Those of a GPU are copied.
            running: what becomes of requests that run or wait: "finish" lets them finish with the old weights first,
                "abort" ends them as "cancelled". Requests that come meanwhile wait and use the new weights.

        Ctrl-C cancels the requests that it waits for, and raises KeyboardInterrupt after the update.

        Raises:
            Error: for a name that the model does not have, another shape or type, or a value that is not finite; all
                weights are then as they were.
        """
        _weights.update(self._engine, weights, array, running)

    def profile(self, tokens: int = 0) -> Trace:
        """What each SM did in the last `tokens` tokens of the last launch (0: as many as were kept).

        Needs `LLM(…, trace_tokens=N)`.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "trace.json.gz")
            self._engine.write_trace(path, tokens)
            return read_trace(path)

    def close(self) -> None:
        """Ends all requests and frees the model; the object cannot be used any more."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self,
        prompts: Sequence[Any],
        params: Sequence[SamplingParams],
        requests: list[_serval.Request],
        use_tqdm: bool,
    ) -> list[RequestOutput]:
        answers = sum(request.n for request in requests)
        with _progress(answers, use_tqdm) as on_change:
            responses = _serval.run(self._engine, requests, on_change)
        return [output_of(prompt, r, p) for prompt, r, p in zip(prompts, responses, params)]


def _prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, (str, dict)):
        return [prompts]
    listed = list(prompts)
    return [listed] if _engine.are_ids(listed) else listed  # type: ignore[list-item, return-value]


def _conversations(messages: Sequence[Any]) -> list[Sequence[Message]]:
    return [messages] if messages and hasattr(messages[0], "keys") else list(messages)


class _progress:
    """A progress bar of tqdm, where it is wanted and installed: called with the number of answers left."""

    def __init__(self, total: int, wanted: bool) -> None:
        self._bar: Any = None
        self._total = total
        if wanted:
            tqdm = importlib.import_module("tqdm.auto").tqdm  # an optional dependency: serval[progress]
            self._bar = tqdm(total=total, desc="answers", dynamic_ncols=True)

    def __enter__(self) -> Callable[[int], None] | None:
        return None if self._bar is None else self._show

    def _show(self, left: int) -> None:
        self._bar.update(self._total - left - self._bar.n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
