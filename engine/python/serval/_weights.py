"""Weights that replace the loaded ones, from the arrays of PyTorch, NumPy and others."""

from __future__ import annotations

from typing import Any, Iterable, Literal, Mapping

import numpy as np

from serval import _serval
from serval._errors import USAGE, Error

Weights = Mapping[str, Any] | Iterable[tuple[str, Any]]
Running = Literal["finish", "abort"]


def update(engine: _serval.Engine, weights: str | Weights, array: Any, running: Running) -> None:
    """As `LLM.update_weights`."""
    if running not in ("finish", "abort"):
        raise Error(f"running: {running!r}; expected 'finish' or 'abort'", USAGE)
    arrays = [_on_host(name, value) for name, value in _named(weights, array)]
    _serval.update_weights(engine, arrays, running == "abort")


def _named(weights: str | Weights, array: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(weights, str):
        if array is None:
            raise Error(f"weights: tensor {weights!r}: no array", USAGE)
        return [(weights, array)]
    if array is not None:
        raise Error("array: only for one tensor, whose name comes first", USAGE)
    return weights.items() if isinstance(weights, Mapping) else weights


def _on_host(name: str, array: Any) -> tuple[str, Any, bool]:
    """An array of the host's memory without gaps, and whether its integers are the bits of bf16."""
    if hasattr(array, "detach"):  # PyTorch; tensors with gradients do not export themselves
        return name, array.detach().cpu().contiguous(), False
    if hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) == 1 and not _is_numpy(array):
        return name, array, False
    if hasattr(array, "__cuda_array_interface__") and hasattr(array, "get"):  # CuPy
        array = array.get()
    if not _is_numpy(array) and not hasattr(array, "__array__"):
        raise Error(f"weights: tensor {name!r}: {type(array).__name__} is not an array", USAGE)
    host = np.asarray(array, order="C")  # JAX's arrays, of any device, come here too
    if host.dtype.name == "bfloat16":  # of ml_dtypes
        return name, host.view(np.uint16), True
    if host.dtype.kind not in "iufcb":
        raise Error(f"weights: tensor {name!r}: type {host.dtype}; supported: bfloat16, float16 and float32", USAGE)
    return name, host, False


def _is_numpy(array: Any) -> bool:
    return isinstance(array, (np.ndarray, np.generic))
