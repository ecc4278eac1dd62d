#!/usr/bin/env python3
"""Compares Serval's logits of quantised checkpoints with those of Hugging Face transformers, which reads the same files.

    tests/parity/quantised.py

Covers formats that transformers computes without a GPU: some of compressed-tensors. Needs torch, transformers and
compressed-tensors; exits with 77 where they are not installed. tests/parity/parity.py has the measures and the gate.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import compressed_tensors  # noqa: F401, required by transformers
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError as missing:
    print(f"quantised: SKIPPED, {missing.name} is not installed (pip install torch transformers compressed-tensors)", file=sys.stderr)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import tiny_quantised  # noqa: E402

# Without packed zero points, which transformers 5.23 does not load.
FORMATS = ("float-quantized", "int-quantized", "pack-quantized-8")


def check(name, scratch):
    model = scratch / name
    tiny_quantised.write(model, scratch / f"{name}-bf16", name)
    command = [sys.executable, "-B", HERE / "parity.py", "--ours-only", "--backend", "host", "--model", model]
    return subprocess.run([str(part) for part in command]).returncode


def main():
    with tempfile.TemporaryDirectory(prefix="serval-quantised-") as scratch:
        codes = [check(name, pathlib.Path(scratch)) for name in FORMATS]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
