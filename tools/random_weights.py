"""The random weights of docs/random_weights.md in numpy: `values("model.norm.weight", seed=1, cols=2048, count=2048)`."""

import numpy as np


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def values(name, seed, cols, count, first=0):
    """Elements [first, first + count) of a tensor whose rows are `cols` long, as float32; `first` is a multiple of 8."""
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
    word = np.arange(first // 8 + 1, (first + count + 7) // 8 + 1, dtype=np.uint64)
    key = mix(np.array([fnv], np.uint64) ^ mix(np.array([seed], np.uint64)))
    byte = mix(key + word * np.uint64(0x9E3779B97F4A7C15)).astype("<u8").view(np.int8)[:count]
    if name.endswith("norm.weight"):
        return np.float32(1) + (byte >> 3) / np.float32(128)
    exponent = 7 + next(e for e in range(32) if 4**e >= cols)
    return (2 * byte.astype(np.float32) + 1) * np.float32(2.0**-exponent)


def bf16_bits(exact):
    """The bf16 patterns of float32 values that bf16 holds exactly, as these all are."""
    return (exact.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
