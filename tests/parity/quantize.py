#!/usr/bin/env python3
"""Loads what `serval quantize` writes in compressed-tensors and transformers.

    tests/parity/quantize.py

For each choice of types: compressed-tensors decompresses the tensors to the values that numpy computes from the source's
weights, value for value, by the rule of docs/models.md; transformers loads the directory (with zero points of several schemes:
a dense one with these values), and its logits are Serval's, within the gate of tests/parity/parity.py. Needs torch, transformers and compressed-tensors; exits with 77 where they
are not installed.
"""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"quantize: SKIPPED, {missing.name} is not installed (pip install torch transformers compressed-tensors)", file=sys.stderr)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import parity  # noqa: E402

PROGRAM = os.environ.get("SERVAL_TEST_PROGRAM", HERE.parent.parent / "build" / "bin" / "serval")
TYPES = (("fp8", "bf16"), ("fp8", "fp8"), ("int4", "bf16"), ("int4:64", "int4:64"), ("int4:32", "int4:64"), ("int4:32", "fp8"), ("bf16", "fp8"))
# Biases, norms of heads, and a head that is a copy of the embedding: preset, settings, types of layers and head.
OTHERS = (
    ("tiny-qwen2", (), "int4", "bf16"),
    ("tiny-qwen3", (), "fp8", "fp8"),
    ("tiny", ("tie_word_embeddings=true",), "fp8", "bf16"),
    ("tiny", ("tie_word_embeddings=true",), "int4:64", "int4:64"),
)
LARGEST_E4M3, LARGEST_CODE = 448, 15
F32 = np.float32


def rounded_to_e4m3(weight):
    """Each row's largest element becomes the largest e4m3. torch rounds to nearest, ties to even."""
    largest = np.abs(weight).max(axis=1, keepdims=True)
    scale = np.where(largest > 0, largest / F32(LARGEST_E4M3), F32(1)).astype(F32)
    codes = torch.from_numpy(weight / scale).to(torch.float8_e4m3fn)
    return codes.to(torch.float32).numpy() * scale


def rounded_to_int4(weight, group):
    """Scale of a group: a 15th of its range with 0, in fp16, of elements that a power of two of the row divides."""
    rows, cols = weight.shape
    largest = np.abs(weight).max(axis=1, keepdims=True)
    power = np.where(largest > 0, np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1)))), 1).astype(F32)[:, :, None]
    elements = weight.reshape(rows, cols // group, group) / power
    least, most = (np.minimum(elements.min(axis=2, keepdims=True), 0), np.maximum(elements.max(axis=2, keepdims=True), 0))
    scale = ((most - least) / F32(LARGEST_CODE)).astype(np.float16).astype(F32)
    divisor = np.where(scale > 0, scale, F32(1))
    zero = np.minimum(np.rint(-least / divisor), LARGEST_CODE)
    codes = np.clip(np.rint(elements / divisor) + zero, 0, LARGEST_CODE)
    return ((codes - zero) * (scale * power)).astype(F32).reshape(rows, cols)


def rounding(kind):
    if kind == "bf16":
        return lambda weight: weight
    if kind == "fp8":
        return rounded_to_e4m3
    return functools.partial(rounded_to_int4, group=int(kind.partition(":")[2] or 128))


def expected_values(source, layers, head):
    """The values of all weights after quantisation, by name, from the source's."""
    values, weights = {}, load_file(source / "model.safetensors")
    if head != "bf16":
        weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    for name, weight in weights.items():
        weight = weight.to(torch.float32).numpy()
        is_matrix = weight.ndim == 2 and "embed_tokens" not in name
        values[name] = rounding(head if name == "lm_head.weight" else layers)(weight) if is_matrix else weight
    return values


def load_shards(directory):
    return {name: tensor for file in sorted(directory.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def scheme_of(config, module):
    """The scheme of a module, or None: patterns come before class names."""
    if module in config["ignore"]:
        return None
    groups = sorted(config["config_groups"].values(), key=lambda group: not group["targets"][0].startswith("re:"))
    return next((group for group in groups if group["targets"] == ["Linear"] or module.endswith("lm_head")), None)


def decompressed(directory):
    """The values of all weights, which compressed-tensors makes of the stored tensors."""
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    values, modules = {}, {}
    for name, tensor in load_shards(directory).items():
        module, _, part = name.rpartition(".")
        modules.setdefault(module, {})[part] = tensor
    for module, parts in modules.items():
        plain = [part for part in parts if part == "bias" or "weight_scale" not in parts]
        values |= {f"{module}.{part}": parts.pop(part).to(torch.float32).numpy() for part in plain}
        if not parts:
            continue
        scheme = QuantizationScheme.model_validate(scheme_of(config, module))
        parts["weight_scale"] = parts["weight_scale"].to(torch.float32)
        compressor = BaseCompressor.get_value_from_registry(scheme.format)
        values[f"{module}.weight"] = compressor.decompress(parts, scheme)["weight"].to(torch.float32).numpy()
    return values


def check_values(found, expected):
    assert sorted(found) == sorted(expected), sorted(set(found) ^ set(expected))
    for name, values in expected.items():
        assert np.array_equal(found[name], values), f"{name}: {np.abs(found[name] - values).max()}"


def write_dense(directory, values):
    """Writes the values of a model as a directory that is not quantised."""
    config = json.loads((directory / "config.json").read_text())
    del config["quantization_config"]
    dense = directory.with_name(directory.name + "-dense")
    dense.mkdir()
    (dense / "config.json").write_text(json.dumps(config))
    save_file({name: torch.from_numpy(tensor) for name, tensor in values.items()}, dense / "model.safetensors", {"format": "pt"})
    return dense


def network_of(directory, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, attn_implementation="sdpa").eval()


def logits_of(network, tokens):
    with torch.inference_mode():
        return network(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0].float().numpy()


def check_logits(directory, network, scratch):
    """`network`: the directory that transformers loads."""
    arguments = ["verify", "-m", directory, "-n", "256", "-c", "256", "--random-tokens", "1", "--ours-only", "--backend", "host"]
    dump = scratch / "logits.safetensors"
    subprocess.run([str(part) for part in (PROGRAM, *arguments, "--dump", dump)], check=True, stdout=subprocess.DEVNULL)
    ours = parity.load_file(dump)
    fp32, bf16 = (logits_of(network_of(network, dtype), ours["tokens"]) for dtype in (torch.float32, torch.bfloat16))
    of_ours, of_bf16 = parity.compare(ours["ours"], fp32), parity.compare(bf16, fp32)
    for figure in ("mean_relative_error", "mean_kl_divergence"):
        ratio = of_ours[figure] / of_bf16[figure]
        print(f"  {figure}: ours {of_ours[figure]:.3e}, transformers in bf16 {of_bf16[figure]:.3e}, ratio {ratio:.3f}")
        assert ratio <= parity.GATE, f"{figure}: {ratio} is above {parity.GATE}"


def check(source, layers, head, scratch):
    print(f"{source.name} --weights {layers} --lm-head {head}")
    directory = scratch / f"{source.name}-{layers}-{head}".replace(":", "-")
    command = [PROGRAM, "quantize", "-m", source, "-o", directory, "--weights", layers, "--lm-head", head, "--activations", "16bit"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    values = decompressed(directory)
    check_values(values, expected_values(source, layers, head))
    # transformers 5.23 loads zero points only where all matrices have one scheme.
    has_zeros, one_scheme = layers.startswith("int4") or head.startswith("int4"), head in (layers, "bf16") or layers == "bf16"
    check_logits(directory, write_dense(directory, values) if has_zeros and not one_scheme else directory, scratch)


def make_source(scratch, preset, settings):
    directory = scratch / "-".join((preset, *settings))
    if not directory.exists():
        parity.make_checkpoint(argparse.Namespace(preset=preset, random_weights=1, set=settings), directory)
    return directory


def main():
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="serval-quantize-") as scratch:
        scratch = pathlib.Path(scratch)
        for preset, settings, layers, head in (*(("tiny", (), *types) for types in TYPES), *OTHERS):
            check(make_source(scratch, preset, settings), layers, head, scratch)


if __name__ == "__main__":
    main()
