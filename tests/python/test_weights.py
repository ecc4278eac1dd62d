"""LLM.update_weights: names, types, errors, running requests; the bits are those of a model loaded with these weights."""

import asyncio
import json
import shutil
import signal
import struct
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt
import pytest

import serval
from serval import LLM, AsyncLLM, Error, SamplingParams

BUNDLED = Path(serval.__file__).parent / "share" / "serval" / "serval-stories"
GREEDY = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)
PROMPTS = ["Once upon a time there was a little fox who lived by the river", "The dog"]

Weights = dict[str, npt.NDArray[np.float32]]


def bundled_weights() -> Weights:
    """The bundled model's tensors as float32; the file has bf16."""
    data = (BUNDLED / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    weights = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16"
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], dtype="<u2").astype(np.uint32) << 16
        weights[name] = bits.view(np.float32).reshape(entry["shape"])
    return weights


def write_model(folder: Path, weights: Weights) -> None:
    """The bundled model's directory with other weights, in float32."""
    shutil.copytree(BUNDLED, folder)
    header: dict[str, Any] = {}
    size = 0
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [size, size + array.nbytes]}
        size += array.nbytes
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in weights.values():
            file.write(array.tobytes())


def changed(weights: Weights) -> Weights:
    random = np.random.default_rng(1)
    return {n: (w * random.uniform(0.8, 1.2, w.shape)).astype(np.float32) for n, w in weights.items()}


def bits(llm: LLM) -> list[tuple[list[int], list[float]]]:
    answers = [output.outputs[0] for output in llm.generate(PROMPTS, GREEDY)]
    return [(answer.token_ids.tolist(), answer.token_logprobs.tolist()) for answer in answers]


@pytest.fixture(scope="module")
def original() -> Weights:
    return bundled_weights()


@pytest.fixture
def model() -> Iterator[LLM]:
    with LLM(backend="host", context=512, threads=1) as llm:
        yield llm


@pytest.mark.parametrize("options", [{}, {"weights": "fp8", "lm_head": "fp8"}])
def test_an_update_equals_a_checkpoint_with_these_weights(
    tmp_path: Path, original: Weights, options: dict[str, Any]
) -> None:
    weights = changed(original)
    write_model(tmp_path / "model", weights)
    with LLM(tmp_path / "model", backend="host", context=512, **options) as loaded:
        expected = bits(loaded)
    with LLM(backend="host", context=512, **options) as llm:
        before = bits(llm)
        assert before != expected
        llm.update_weights(weights)
        assert bits(llm) == expected
        llm.update_weights(original)
        assert bits(llm) == before


def test_one_tensor_at_a_time(model: LLM, original: Weights) -> None:
    weights = changed(original)
    for name, array in weights.items():
        model.update_weights(name, array)
    one_by_one = bits(model)
    model.update_weights(original)
    model.update_weights(iter(weights.items()))  # pairs, as model.named_parameters() gives them
    assert bits(model) == one_by_one


def test_arrays_of_any_layout(model: LLM, original: Weights) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    array = changed(original)[name]
    model.update_weights(name, array)
    expected = bits(model)
    model.update_weights(original)
    model.update_weights(name, np.asfortranarray(array))
    assert bits(model) == expected
    wide = np.zeros((array.shape[0], array.shape[1] * 2), np.float32)
    wide[:, ::2] = array
    model.update_weights(name, wide[:, ::2])
    assert bits(model) == expected
    read_only = array.copy()
    read_only.flags.writeable = False
    model.update_weights(name, read_only)
    assert bits(model) == expected


def test_float16_is_rounded(model: LLM, original: Weights) -> None:
    array = changed(original)["model.norm.weight"].astype(np.float16)
    model.update_weights("model.norm.weight", array)
    expected = bits(model)
    model.update_weights("model.norm.weight", array.astype(np.float32))
    assert bits(model) == expected


def test_bfloat16_of_ml_dtypes(model: LLM, original: Weights) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    before = bits(model)
    model.update_weights({name: array.astype(ml_dtypes.bfloat16) for name, array in original.items()})
    assert bits(model) == before


def test_tensors_of_pytorch(model: LLM, original: Weights) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    weights = changed(original)
    model.update_weights(weights)
    expected = bits(model)
    for kind in (torch.float32, torch.bfloat16):
        model.update_weights(original)
        parameters = {name: torch.nn.Parameter(torch.tensor(array).to(kind)) for name, array in weights.items()}
        model.update_weights(parameters)
        assert bits(model) == expected
    name = "model.layers.0.mlp.down_proj.weight"
    model.update_weights(name, torch.tensor(weights[name].T.copy()).T)  # not contiguous
    assert bits(model) == expected


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("model.nothing.weight", np.ones(3, np.float32), 'tensor "model.nothing.weight": the model has no tensor'),
        ("model.norm.weight", np.ones(3, np.float32), r'tensor "model.norm.weight": shape \[3\]; expected \[256\]'),
        ("model.norm.weight", np.ones((1, 256), np.float32), r"shape \[1, 256\]; expected \[256\]"),
        ("model.norm.weight", np.ones(256), "type float64; supported: bfloat16, float16 and float32"),
        ("model.norm.weight", np.ones(256, np.int32), "type int32; supported"),
        ("model.norm.weight", np.ones(256, np.uint16), "type uint16; supported"),
        ("model.norm.weight", np.array(["a"] * 256), "type <U1; supported"),
        ("model.norm.weight", [1.0] * 256, "list is not an array"),
        ("model.norm.weight", None, "no array"),
    ],
)
def test_wrong_tensors_are_usage_errors(llm: LLM, name: str, array: Any, message: str) -> None:
    before = bits(llm)
    with pytest.raises(Error, match=message) as caught:
        llm.update_weights(name, array)
    assert caught.value.kind == "usage" and "\n" not in str(caught.value)
    assert bits(llm) == before


def test_other_wrong_arguments_are_errors(llm: LLM, original: Weights) -> None:
    with pytest.raises(Error, match="running: 'wait'; expected 'finish' or 'abort'"):
        llm.update_weights({}, running="wait")  # type: ignore[arg-type]
    with pytest.raises(Error, match="array: only for one tensor"):
        llm.update_weights(original, np.ones(3))
    embedding = original["model.embed_tokens.weight"]
    with pytest.raises(Error, match='"lm_head.weight": differs from "model.embed_tokens.weight"'):
        llm.update_weights({"model.embed_tokens.weight": embedding, "lm_head.weight": embedding * 2})
    norm = original["model.norm.weight"].copy()
    norm[7] = np.nan
    with pytest.raises(Error, match=r"element \[7\] is nan") as caught:
        llm.update_weights("model.norm.weight", norm)
    assert caught.value.kind == "runtime"


def in_thread(model: LLM, outputs: list[Any], max_tokens: int) -> threading.Thread:
    """Runs a request on another thread, and returns when it has begun."""
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    thread = threading.Thread(target=lambda: outputs.extend(model.generate("The dog", params)))
    generated = model.stats.generated_tokens
    thread.start()
    while model.stats.generated_tokens == generated:
        time.sleep(0.001)
    return thread


def test_running_requests_finish_with_the_old_weights(model: LLM, original: Weights) -> None:
    params = SamplingParams(temperature=0, max_tokens=300, ignore_eos=True)
    expected = model.generate("The dog", params)[0].outputs[0].text
    outputs: list[Any] = []
    thread = in_thread(model, outputs, 300)
    model.update_weights(changed(original))
    thread.join()
    assert outputs[0].outputs[0].text == expected
    assert model.generate("The dog", params)[0].outputs[0].text != expected


def test_running_requests_are_aborted_as_asked(model: LLM, original: Weights) -> None:
    outputs: list[Any] = []
    thread = in_thread(model, outputs, 500)
    model.update_weights(changed(original), running="abort")
    thread.join()
    assert outputs[0].outputs[0].finish_reason == "cancelled"


def test_ctrl_c_cancels_what_an_update_waits_for(model: LLM, original: Weights) -> None:
    outputs: list[Any] = []
    thread = in_thread(model, outputs, 500)
    timer = threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.update_weights(changed(original))
        time.sleep(10)  # if the request was done before the signal
    thread.join()
    assert len(outputs) == 1
    assert model.generate("A", GREEDY)[0].outputs[0].text


def test_an_event_loop_runs_on_during_an_update(original: Weights) -> None:
    async def text(llm: AsyncLLM) -> str:
        return "".join([piece.text async for piece in llm.generate("The dog", GREEDY)])

    async def run() -> tuple[str, str, str]:
        with LLM(backend="host", context=512, threads=1) as other:
            other.update_weights(changed(original))
            expected = other.generate("The dog", GREEDY)[0].outputs[0].text
        llm = AsyncLLM(backend="host", context=512, threads=1)
        before = asyncio.create_task(text(llm))
        await asyncio.sleep(0.02)
        await llm.update_weights(changed(original))
        await before
        after = await text(llm)
        llm.close()
        return before.result(), after, expected

    before, after, expected = asyncio.run(run())
    assert after == expected and before != after
