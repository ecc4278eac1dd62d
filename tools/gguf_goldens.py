#!/usr/bin/env python3
"""Writes the GGUF files that tests/gguf compares with, by the `gguf` package of PyPI (tools/requirements.txt).

    python3 tools/gguf_goldens.py [tests/data/gguf]

types.gguf has a tensor of random blocks for each type that Serval reads, and beside it, as F32 and called NAME.values, what
`gguf` dequantises it to. Running it again writes the same bytes.
"""

import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

ROWS, COLUMNS = 3, 512
SEED = 20240601

# Where the fp16 numbers of a block lie; all else in it may be any bits.
HALVES = {
    Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}  # fmt: skip


def random_halves(rng, count):
    """Of both signs and all sizes, subnormal ones among them, but no infinities."""
    scale = np.exp2(rng.uniform(-22, 4, count))
    return (rng.standard_normal(count) * scale).astype(np.float16).view(np.uint8).reshape(count, 2)


def random_blocks(rng, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLUMNS // elements
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in HALVES[kind]:
        blocks[:, offset : offset + 2] = random_halves(rng, count)
    return blocks.reshape(ROWS, -1)


def random_numbers(rng, kind):
    values = (rng.standard_normal((ROWS, COLUMNS)) * np.exp2(rng.uniform(-20, 10, (ROWS, COLUMNS)))).astype(np.float32)
    if kind == Type.F32:
        return values
    if kind == Type.F16:
        return values.astype(np.float16)
    return gguf.quants.quantize(values, kind)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/gguf")
    out.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(out / "types.gguf", "none")
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("words", ["", "é", "three"])
    rng = np.random.default_rng(SEED)
    for kind in (Type.F32, Type.F16, Type.BF16, *HALVES):
        data = random_blocks(rng, kind) if kind in HALVES else random_numbers(rng, kind)
        values = np.ascontiguousarray(gguf.quants.dequantize(data, kind), dtype=np.float32)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.add_tensor(f"{kind.name}.values", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
