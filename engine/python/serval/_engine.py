"""What LLM and AsyncLLM share: options, requests, the loaded engine."""

from __future__ import annotations

import atexit
import time
import weakref
from pathlib import Path
from typing import Any, Mapping, Sequence

from serval import _serval
from serval._errors import USAGE, Error
from serval.sampling_params import SamplingParams

Message = Mapping[str, str]
Prompt = str | Sequence[int] | Mapping[str, Any]

# vLLM's names of options.
ALIASES = {
    "max_model_len": "context",
    "max_num_seqs": "max_sequences",
    "max_num_batched_tokens": "max_batch_tokens",
}

# Values of vLLM's option `runner`: whether the engine computes embeddings; None: if the model's files say how.
RUNNERS = {"auto": None, "generate": False, "pooling": True}

_loaded: weakref.WeakSet[_serval.Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Requests that still run end before the interpreter goes, and the calls of other threads that wait for them."""
    for engine in list(_loaded):
        engine.close()
    deadline = time.monotonic() + 5
    while any(engine.has_calls for engine in list(_loaded)) and time.monotonic() < deadline:
        time.sleep(0.001)


def options_of(model: str, options: Mapping[str, Any]) -> _serval.EngineOptions:
    """Raises `Error` (usage) for an unknown name or a value of the wrong type."""
    out = _serval.EngineOptions()
    for given, value in {"model": model, **options}.items():
        name = ALIASES.get(given, given)
        if name == "speculative_config":
            name, value = "speculation", speculation_of(value)
        if name == "tensor_parallel_size":
            name, value = "gpus", list(range(value)) if value > 1 else []
        if name == "runner":
            if value not in RUNNERS:
                raise Error(f"runner: {value!r}; expected one of {', '.join(RUNNERS)}", USAGE)
            name, value = "embeddings", RUNNERS[value]
        if not hasattr(out, name):
            raise Error(f"{given}: no such option; help(serval.LLM) lists them", USAGE)
        try:
            setattr(out, name, str(value) if isinstance(value, Path) else value)
        except (TypeError, OverflowError) as error:
            raise Error(f"{given}: {value!r} is not a value of its type or range", USAGE) from error
    if not out.model and out.random_weights is None:
        out.model = str(bundled_model())
    return out


# vLLM's names of what a speculative_config has. Its method "draft_model", the default where a model is named, is "model" here.
SPECULATION = {
    "method": "method",
    "num_speculative_tokens": "draft_max",
    "prompt_lookup_min": "ngram_min",
    "prompt_lookup_max": "ngram_max",
}


def speculation_of(config: Mapping[str, Any] | None) -> _serval.Speculation:
    """Raises `Error` (usage) for an unknown name or a value of the wrong type."""
    out = _serval.Speculation()
    config = dict(config or {})
    if "model" in config:
        config.setdefault("method", "draft_model")
    if config.get("method") == "draft_model":
        config["method"] = "model"
    for given, value in config.items():
        name = SPECULATION.get(given, given)
        if not hasattr(out, name):
            raise Error(f"speculative_config: {given}: no such option", USAGE)
        try:
            setattr(out, name, value)
        except (TypeError, OverflowError) as error:
            raise Error(f"speculative_config: {given}: {value!r} is not a value of its type or range", USAGE) from error
    return out


def bundled_model() -> Path:
    """The package's own model, unless it is used from a source tree that has none."""
    inside = Path(__file__).parent / "share" / "serval" / "serval-stories"
    return inside if inside.is_dir() else Path(_serval.bundled_model())


def load(model: str, options: Mapping[str, Any]) -> _serval.Engine:
    engine = _serval.Engine(options_of(str(model), options))
    _loaded.add(engine)
    return engine


def are_ids(values: Sequence[Any]) -> bool:
    """Whether a list is one prompt of token ids, and not a list of prompts."""
    return bool(values) and all(isinstance(v, int) or hasattr(v, "__index__") for v in values)


def request_of(prompt: Prompt, params: SamplingParams) -> _serval.Request:
    """A prompt is a text, token ids, or vLLM's {"prompt": …} or {"prompt_token_ids": …}."""
    request = params._request()
    if isinstance(prompt, Mapping):
        prompt = prompt["prompt_token_ids"] if "prompt_token_ids" in prompt else prompt["prompt"]
    if isinstance(prompt, str):
        request.prompt = prompt
    else:
        request.prompt_ids = [int(token) for token in prompt]
    return request


def chat_messages(messages: Sequence[Message]) -> list[_serval.ChatMessage]:
    return [_serval.ChatMessage(m["role"], m["content"], m.get("name", "")) for m in messages]


def chat_request_of(messages: Sequence[Message], params: SamplingParams) -> _serval.Request:
    request = params._request()
    request.messages = chat_messages(messages)
    return request


def default_params(engine: _serval.Engine) -> SamplingParams:
    """What the checkpoint's generation_config.json asks for; what it does not name is off."""
    own = engine.info().model_sampling
    return SamplingParams(
        temperature=own.temperature,
        top_k=own.top_k,
        top_p=own.top_p,
        min_p=own.min_p,
        repetition_penalty=own.repetition_penalty,
    )


def params_for(
    count: int, params: SamplingParams | Sequence[SamplingParams] | None, engine: _serval.Engine
) -> list[SamplingParams]:
    if params is None:
        return [default_params(engine)] * count
    if isinstance(params, SamplingParams):
        return [params] * count
    if len(params) != count:
        raise Error(f"sampling_params: {len(params)} for {count} prompts", USAGE)
    return list(params)
