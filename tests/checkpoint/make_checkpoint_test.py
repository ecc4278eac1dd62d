"""Tests of tools/make_checkpoint.py: whole, sharded and widened files hold the values of the goldens.

Exits with 77 where numpy is not installed.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("python3-numpy is not installed")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[1])
TYPES = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    body = data[8 + length :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


def make(folder, *arguments):
    tool = ROOT / "tools" / "make_checkpoint.py"
    subprocess.run([sys.executable, "-B", tool, "tiny", folder, "--seed", "3", *arguments], check=True)
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= read_safetensors(path)
    return tensors


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def check_goldens():
    sys.path.insert(0, str(ROOT / "tools"))
    import random_weights

    goldens = json.loads((ROOT / "tests/data/checkpoint/random_weights.json").read_text())
    for case in goldens["cases"]:
        count = len(case["bf16"])
        values = random_weights.values(case["name"], case["seed"], case["columns"], count, case["first"])
        assert random_weights.bf16_bits(values).tolist() == case["bf16"], case["name"]


def main():
    check_goldens()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        whole = make(scratch / "whole")
        sharded = make(scratch / "sharded", "--shards", "3", "--dtype", "F32")
        half = make(scratch / "half", "--dtype", "F16")
        index = json.loads((scratch / "sharded" / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"]) == set(whole)
        assert len(set(index["weight_map"].values())) == 3
        for name, bits in whole.items():
            assert np.array_equal(widened(bits), sharded[name]), name
            assert np.array_equal(widened(bits), half[name].astype(np.float32)), name


main()
