#!/usr/bin/env python3
"""Writes the quantised checkpoints that tests/checkpoint compares with (tools/requirements.txt has the packages).

    python3 tools/quantised_goldens.py [tests/data/quantised]

Each folder has config.json (or another file that names the method), model.safetensors with one quantised matrix for each
module, and values.safetensors with the fp32 values that the method's own package dequantises it to:

compressed-tensors   `compressed_tensors` packs and decompresses
fp8                  transformers' Fp8Dequantize, and compressed_tensors' dequantiser where blocks are cut off
gptq                 AutoGPTQ's QuantLinear packs and multiplies; gptq_v2 differs in its zero points only
awq                  AutoAWQ's WQLinear_GEMM packs, its dequantize_gemm dequantises
fbgemm_fp8, modelopt torch: both are e4m3 times a scale

AutoGPTQ and AutoAWQ (pip install --no-deps --no-build-isolation auto-gptq==0.7.1 autoawq==0.2.9) do not import beside newer
versions of transformers; the two files that are needed are loaded without their packages. Values are computed with the scales
widened to fp32; that the package computes the same, rounded to the type of the scales, is checked here.

Running it again writes the same bytes.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types

import compressed_tensors
import numpy as np
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.entrypoints.convert.converters.fp8block_dequantizer import FP8BlockDequantizer
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

SEED = 20260128
PACKAGES = ("compressed-tensors", "transformers", "torch", "auto-gptq", "autoawq")
E4M3 = torch.float8_e4m3fn
E4M3_NANS = (0x7F, 0xFF)


def import_alone(package, module):
    """Imports a module of an installed package, but not the package's own __init__.py files."""
    if f"{package}.{module}" in sys.modules:
        return sys.modules[f"{package}.{module}"]
    path = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join([package, *parts[:depth]])
        parent = types.ModuleType(name)
        parent.__path__ = [str(path.joinpath(*parts[:depth]))]
        sys.modules[name] = parent
    return importlib.import_module(f"{package}.{module}")


class Case:
    """A checkpoint: its tensors, the values of its matrices, and its configuration."""

    def __init__(self, seed):
        self.rng = np.random.default_rng([SEED, seed])
        self.tensors, self.values = {}, {}

    def add(self, module, tensors, values, packaged=None):
        """`packaged`: what the package computes with scales of their own type."""
        values = values.detach().float().contiguous()
        if packaged is not None:
            assert torch.equal(values.to(packaged.dtype), packaged), module
        self.tensors |= {f"{module}.{name}": tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
        self.values[module] = values

    def write(self, folder, config, file="config.json"):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.tensors, folder / "model.safetensors")
        save_file(self.values, folder / "values.safetensors")
        files = {"config.json": {}} | {file: {"quantization_config": config} if file == "config.json" else config}
        for name, value in files.items():
            (folder / name).write_text(json.dumps(value, indent=1) + "\n")

    # Random parts, with edge values in them.

    def e4m3(self, rows, cols):
        """All codes but the NaNs: both zeros and all subnormal numbers are among them."""
        codes = self.rng.permuted(np.resize([c for c in range(256) if c not in E4M3_NANS], rows * cols)).astype(np.uint8)
        return torch.from_numpy(codes.reshape(rows, cols)).view(E4M3)

    def codes(self, rows, cols, low, high):
        codes = self.rng.integers(low, high + 1, (rows, cols))
        codes.flat[:4] = low, high, high, low
        return torch.from_numpy(codes)

    def scales(self, shape, dtype):
        """Of all sizes; the first ones are 0, subnormal, and negative."""
        scales = self.rng.standard_normal(shape) * np.exp2(self.rng.uniform(-12, 3, shape))
        special = [0.0, float(torch.finfo(dtype).smallest_normal) / 4, -0.75]
        scales = np.array(np.abs(scales), dtype=np.float64)
        count = min(len(special), scales.size - 1)
        scales.flat[:count] = special[:count]
        return torch.from_numpy(scales).to(dtype)


# compressed-tensors


def compress(case, module, format, args, codes, scales, zeros=None, **more):
    """Adds a matrix that the package's compressor of `format` decompresses."""
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    rows, cols = codes.shape
    if format == "pack-quantized":
        offset = 1 << (args.num_bits - 1)
        tensors = {"weight_packed": pack_to_int32((codes - offset).to(torch.int8), args.num_bits)}
        tensors["weight_shape"] = torch.tensor([rows, cols])
        if zeros is not None:
            zeros = pack_to_int32((zeros - offset).to(torch.int8), args.num_bits, packed_dim=0)
    else:
        tensors = {"weight": codes if args.type == "float" else codes.to(torch.int8)}
        zeros = zeros.to(torch.int8) if zeros is not None else None
    if zeros is not None:
        tensors["weight_zero_point"] = zeros
    compressor = BaseCompressor.get_value_from_registry(format)

    def decompressed(scale):
        return compressor.decompress(tensors | {"weight_scale": scale}, scheme)["weight"]

    values = decompressed(scales.float())
    case.add(module, tensors | {"weight_scale": scales} | more, values, decompressed(scales))


def compressed_tensors_config(format, groups, **more):
    shown = {
        f"group_{i}": {"targets": [target], "weights": args | {"dynamic": False, "observer": "minmax"}, "input_activations": None}
        for i, (target, args) in enumerate(groups.items())
    }
    config = {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed", "config_groups": shown}
    return config | {"ignore": ["lm_head"], "kv_cache_scheme": None, "global_compression_ratio": 1.5} | more


def write_scaled(folder, format, seed, kinds):
    """Formats with a byte for each element."""
    case, groups = Case(seed), {}
    types = [torch.bfloat16, torch.float32, torch.float16]
    for kind in kinds:
        for strategy, rows, cols, shape, more in [
            ("tensor", 5, 37, (1,), {}),
            ("channel", 9, 33, (9, 1), {}),
            ("group", 6, 96, (6, 3), {"group_size": 32}),
            ("block", 37, 70, (3, 5), {"block_structure": [16, 16]}),
        ]:
            for symmetric in (True, False):
                if (kind == "float" and not symmetric) or (not symmetric and strategy == "block"):
                    continue
                module = f"m.{kind}_{strategy}" + ("" if symmetric else "_asymmetric")
                args = {"num_bits": 8, "type": kind, "symmetric": symmetric, "strategy": strategy} | more
                scales = case.scales(shape, types[len(groups) % len(types)])
                codes = case.e4m3(rows, cols) if kind == "float" else case.codes(rows, cols, -128, 127)
                zeros = None if symmetric else case.codes(*(shape if len(shape) == 2 else (1, 1)), -128, 127).reshape(shape)
                compress(case, module, format, args, codes, scales, zeros)
                groups[f"re:{module.replace('.', '[.]')}$"] = args
    case.write(folder, compressed_tensors_config(format, groups))


def act_order(case, cols, size):
    groups = np.repeat(np.arange(cols // size), size)
    return torch.from_numpy(case.rng.permuted(groups).astype(np.int32))


def write_packed(folder, bits, seed):
    case, groups, most = Case(seed), {}, (1 << bits) - 1
    for strategy, rows, cols, shape, more in [
        ("channel", 21, 43, (21, 1), {}),
        ("group", 13, 96, (13, 3), {"group_size": 32}),
        ("tensor", 3, 16, (1,), {}),
    ]:
        for symmetric in (True, False) if strategy != "tensor" else (True,):
            module = f"m.{strategy}" + ("" if symmetric else "_asymmetric")
            args = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy} | more
            zeros = None if symmetric else case.codes(*shape, 0, most)
            compress(case, module, "pack-quantized", args, case.codes(rows, cols, 0, most), case.scales(shape, torch.bfloat16), zeros)
            groups[module] = args
    # The package dropped act order in 2026. Until then it sorted the columns by group, dequantised, and sorted back.
    args = {"num_bits": bits, "type": "int", "symmetric": False, "strategy": "group", "group_size": 16, "actorder": "group"}
    codes, scales, zeros = case.codes(24, 64, 0, most), case.scales((24, 4), torch.float16), case.codes(24, 4, 0, most)
    g_idx = act_order(case, 64, 16)
    order = torch.argsort(g_idx, stable=True)
    other, sorted_args = Case(0), {key: value for key, value in args.items() if key != "actorder"}
    compress(other, "x", "pack-quantized", sorted_args, codes[:, order], scales, zeros)
    compress(case, "m.act_order", "pack-quantized", sorted_args, codes, scales, zeros, weight_g_idx=g_idx)
    case.values["m.act_order"] = other.values["x"][:, torch.argsort(order)].contiguous()
    groups["m.act_order"] = args
    case.write(folder, compressed_tensors_config("pack-quantized", groups))


# e4m3 outside of compressed-tensors


def write_fp8_blocks(folder):
    case, block = Case(20), (16, 32)
    whole = Fp8Dequantize(None)
    for module, rows, cols, dtype in [("m.whole", 48, 64, torch.float32), ("m.bf16_scales", 16, 96, torch.bfloat16)]:
        weight, scales = case.e4m3(rows, cols), case.scales((rows // block[0], cols // block[1]), dtype)
        values = whole._dequantize_one(weight, scales.float(), torch.float32)
        case.add(module, {"weight": weight, "weight_scale_inv": scales}, values)
    cut = FP8BlockDequantizer(weight_block_size=block, dtype=torch.float32)
    weight, scales = case.e4m3(37, 70), case.scales((3, 3), torch.float32)
    case.add("m.cut", {"weight": weight, "weight_scale_inv": scales}, cut._create_dequantized_weight(weight, scales))
    powers = torch.tensor([[0, 127], [254, 120]], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    small = case.e4m3(32, 64)
    small[16:, :32] = torch.tensor(0.0625, dtype=E4M3)  # times 2^127
    case.add("m.e8m0", {"weight": small, "weight_scale_inv": powers}, whole._dequantize_one(small, powers.float(), torch.float32))
    config = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": list(block)}
    case.write(folder, config | {"modules_to_not_convert": ["lm_head"]})


def write_fp8_scales(folder, seed, shapes, config, file="config.json", extra=None):
    case = Case(seed)
    for module, name, shape, dtype in shapes:
        weight, scales = case.e4m3(7, 43), case.scales(shape, dtype)
        values = weight.float() * (scales.float() if scales.numel() == 1 else scales.float().reshape(-1, 1))
        case.add(module, {"weight": weight, name: scales} | (extra or {}), values)
    case.write(folder, config, file)


# GPTQ


def packed_words(codes, bits):
    """Neighbouring rows of `codes` in a word, the first one in its lowest bits. GPTQ packs columns by its transpose."""
    count = 32 // bits
    words = codes.numpy().astype(np.uint32).reshape(codes.shape[0] // count, count, -1)
    words = (words << (bits * np.arange(count, dtype=np.uint32))[None, :, None]).sum(axis=1, dtype=np.uint32)
    return torch.from_numpy(words.view(np.int32))


def gptq_module(case, module, bits, rows, cols, group, version, borrow=False, g_idx=None):
    linear = import_alone("auto_gptq", "nn_modules.qlinear.qlinear_cuda")
    most, groups = (1 << bits) - 1, cols // group
    codes = case.codes(cols, rows, 0, most)  # as the file has them: [columns, rows]
    lowest = 0 if version == 2 or borrow else 1
    zeros = case.codes(groups, rows, lowest, most)
    scales = case.scales((groups, rows), torch.float16)
    sequence = torch.arange(cols, dtype=torch.int32) // group
    g_idx = sequence if g_idx is None else g_idx
    stored = packed_words(zeros.T.contiguous(), bits).T.contiguous() if version == 2 or borrow else None
    if stored is None:
        stored = packed_words((zeros - 1).T.contiguous(), bits).T.contiguous()
    elif borrow:  # as GPTQModel's convert_gptq_v2_to_v1_format_module()
        stored = stored - (0x11111111 if bits == 4 else 0x01010101)
    tensors = {"qweight": packed_words(codes, bits), "qzeros": stored, "scales": scales, "g_idx": g_idx}
    exact = (codes - zeros[g_idx.long()]).float() * scales.float()[g_idx.long()]
    packaged = None
    if version == 1 and not borrow:
        # AutoGPTQ multiplies its input by the values; here they are taken before that.
        layer = linear.QuantLinear(bits, group, cols, rows, False)
        layer.qweight, layer.qzeros, layer.scales, layer.g_idx = (tensors[k] for k in ("qweight", "qzeros", "scales", "g_idx"))
        multiply, torch.matmul = torch.matmul, lambda x, weights: weights
        packaged = layer.forward(torch.zeros(cols, cols, dtype=torch.float16)).T
        torch.matmul = multiply
        check_gptq_packing(linear, bits, group, codes, zeros, g_idx, tensors)
    case.add(module, tensors, exact.T, packaged)


def check_gptq_packing(linear, bits, group, codes, zeros, g_idx, tensors):
    """AutoGPTQ packs the same words, from values with scales that lose nothing."""
    cols, rows = codes.shape
    layer = linear.QuantLinear(bits, group, cols, rows, False, weight_dtype=torch.float32)
    dense = torch.nn.Linear(cols, rows, bias=False)
    dense.weight.data = (codes - zeros[g_idx.long()]).float().T.contiguous()
    scales = torch.ones(rows, zeros.shape[0])
    layer.pack(dense, scales, zeros.float().T.contiguous(), g_idx)
    assert torch.equal(layer.qweight, tensors["qweight"]) and torch.equal(layer.qzeros, tensors["qzeros"])


def write_gptq(folder, seed, bits, group, file="config.json", desc_act=False, version=1, borrow=False):
    case = Case(seed)
    for module, rows, cols in [("m.wide", 32, 128), ("m.tall", 64 if version == 1 else 40, 64)]:
        size = cols if group < 0 else group
        g_idx = act_order(case, cols, size) if desc_act else None
        gptq_module(case, module, bits, rows, cols, size, version, borrow, g_idx)
    config = {"bits": bits, "group_size": group, "desc_act": desc_act, "sym": False, "true_sequential": True, "damp_percent": 0.1}
    if file == "config.json":
        config |= {"quant_method": "gptq", "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    if borrow:
        config |= {"meta": {"quantizer": ["gptqmodel:4.0.0"]}}
    case.write(folder, config, file)


# AWQ


def write_awq(folder, seed, group, config, file="config.json"):
    awq = import_alone("awq", "modules.linear.gemm")
    packing = importlib.import_module("awq.utils.packing_utils")
    case = Case(seed)
    for module, rows, cols in [("m.wide", 32, 128), ("m.tall", 96, 64)]:
        size = cols if group < 0 else group
        codes, zeros = case.codes(cols, rows, 0, 15), case.codes(cols // size, rows, 0, 15)
        scales = case.scales((cols // size, rows), torch.float16)
        dense = torch.nn.Linear(cols, rows, bias=False)
        dense.weight.data = (codes - zeros.repeat_interleave(size, 0)).float().T.contiguous()
        layer = awq.WQLinear_GEMM.from_linear(dense, 4, size, scales=torch.ones(scales.shape), zeros=zeros)
        tensors = {"qweight": layer.qweight, "qzeros": layer.qzeros, "scales": scales}
        values = packing.dequantize_gemm(layer.qweight, layer.qzeros, scales.float(), 4, size)
        packaged = packing.dequantize_gemm(layer.qweight, layer.qzeros, scales, 4, size)
        assert torch.equal(values, (codes - zeros.repeat_interleave(size, 0)).float() * scales.float().repeat_interleave(size, 0))
        case.add(module, tensors, values.T, packaged.T)
    case.write(folder, config, file)


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/quantised")
    write_scaled(out / "ct_int", "int-quantized", 1, ["int"])
    write_scaled(out / "ct_float", "float-quantized", 2, ["float"])
    write_scaled(out / "ct_naive", "naive-quantized", 3, ["int", "float"])
    write_packed(out / "ct_pack4", 4, 4)
    write_packed(out / "ct_pack8", 8, 5)
    write_fp8_blocks(out / "fp8_blocks")
    scalar = [("m.one", "weight_scale", (1,), torch.float32), ("m.scalar", "weight_scale", (), torch.bfloat16)]
    rows = [("m.rows", "weight_scale", (7, 1), torch.float32), ("m.row_list", "weight_scale", (7,), torch.float32)]
    static = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    inverse = [("m.inverse", "weight_scale_inv", (), torch.float32)]
    write_fp8_scales(out / "fp8_scales", 21, scalar + rows + inverse, static, extra={"input_scale": torch.tensor([0.5])})
    write_fp8_scales(out / "fbgemm_fp8", 22, rows[:1], {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})
    algorithm = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.1.*"]}
    modelopt = {"producer": {"name": "modelopt", "version": "0.42.0"}, "quantization": algorithm}
    write_fp8_scales(out / "modelopt", 23, scalar, modelopt, "hf_quant_config.json", {"input_scale": torch.tensor(0.5)})
    write_gptq(out / "gptq4", 30, 4, 32)
    write_gptq(out / "gptq8", 31, 8, 32)
    write_gptq(out / "gptq4_rows", 32, 4, -1, "quantize_config.json")
    write_gptq(out / "gptq4_act_order", 33, 4, 16, desc_act=True)
    write_gptq(out / "gptq4_v2", 34, 4, 32, version=2)
    write_gptq(out / "gptq8_v2_act_order", 35, 8, 32, version=2, desc_act=True)
    write_gptq(out / "gptq4_gptqmodel", 36, 4, 32, borrow=True)
    awq = {"zero_point": True, "modules_to_not_convert": None}
    write_awq(out / "awq", 40, 32, awq | {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"})
    write_awq(out / "awq_rows", 41, -1, awq | {"w_bit": 4, "q_group_size": -1, "version": "GEMM"}, "quant_config.json")
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    (out / "packages.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
