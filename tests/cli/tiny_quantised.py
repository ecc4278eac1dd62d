"""Writes the tiny Llama with quantised projections, in each layout that Serval reads, and in bf16 with the same values.

Everything is packed here by the rules of the formats, one code after the other, so that this shares nothing with the reader.
"""

import json
import os
import random
import struct

import tiny_model

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
FP8_NAN = 0x7F


def bf16(value):
    """The bits of the nearest bf16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def e4m3(code):
    sign, exponent, mantissa = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    return sign * (mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))


def words(codes, bits, order=None):
    """Packs codes, 32 / bits of them in a word."""
    count = 32 // bits
    order = order or range(count)
    out = b""
    for first in range(0, len(codes), count):
        group = codes[first : first + count]
        group += [0] * (count - len(group))
        out += struct.pack("<I", sum(group[place] << (bits * i) for i, place in enumerate(order)))
    return out


def transposed(matrix):
    return [list(column) for column in zip(*matrix)]


class Matrix:
    """Codes [rows][cols], scales and zero points [row][group] of a projection; all scales are exact in F16 and BF16."""

    def __init__(self, rng, rows, cols, bits, group, signed=False, lowest_zero=0):
        self.rows, self.cols, self.bits, self.group = rows, cols, bits, group
        least = -(1 << (bits - 1)) if signed else 0
        most = least + (1 << bits) - 1
        self.codes = [[rng.randint(least, most) for _ in range(cols)] for _ in range(rows)]
        self.groups = cols // group
        self.zeros = [[rng.randint(max(least, lowest_zero), most) for _ in range(self.groups)] for _ in range(rows)]
        self.scales = [[rng.randint(1, 8) * 2.0 ** -(bits + 4) for _ in range(self.groups)] for _ in range(rows)]
        self.group_of = [col // group for col in range(cols)]

    def values(self):
        return [
            [(code - self.zeros[row][g]) * self.scales[row][g] for code, g in zip(self.codes[row], self.group_of)]
            for row in range(self.rows)
        ]


class Floats(Matrix):
    """e4m3 with a scale for a block of rows × columns."""

    def __init__(self, rng, rows, cols, block_rows, block_cols):
        self.rows, self.cols, self.block = rows, cols, (block_rows, block_cols)
        self.codes = [[rng.choice([c for c in range(256) if c & 0x7F != FP8_NAN]) for _ in range(cols)] for _ in range(rows)]
        height, width = -(-rows // block_rows), -(-cols // block_cols)
        self.scales = [[rng.randint(1, 8) * 2.0**-14 for _ in range(width)] for _ in range(height)]

    def values(self):
        height, width = self.block
        return [
            [e4m3(self.codes[r][c]) * self.scales[r // height][c // width] for c in range(self.cols)] for r in range(self.rows)
        ]


def f16_rows(rows):
    return b"".join(struct.pack(f"<{len(row)}e", *row) for row in rows)


def bf16_rows(rows):
    return b"".join(struct.pack(f"<{len(row)}H", *map(bf16, row)) for row in rows)


def f32_rows(rows):
    return b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)


def gptq_tensors(m, stored_less):
    count = 32 // m.bits
    zeros = [[zero - stored_less for zero in row] for row in transposed(m.zeros)]
    by_column = [words(list(column), m.bits) for column in m.codes]  # the words of each row, along its columns
    packed = b"".join(row[4 * k : 4 * k + 4] for k in range(m.cols // count) for row in by_column)
    return {
        "qweight": ("I32", [m.cols // count, m.rows], packed),
        "qzeros": ("I32", [m.groups, m.rows // count], b"".join(words(row, m.bits) for row in zeros)),
        "scales": ("F16", [m.groups, m.rows], f16_rows(transposed(m.scales))),
        "g_idx": ("I32", [m.cols], struct.pack(f"<{m.cols}i", *m.group_of)),
    }


def awq_tensors(m):
    packed = [b"".join(words(row, 4, AWQ_ORDER) for row in transposed(rows)) for rows in (m.codes, m.zeros)]
    return {
        "qweight": ("I32", [m.cols, m.rows // 8], packed[0]),
        "qzeros": ("I32", [m.groups, m.rows // 8], packed[1]),
        "scales": ("F16", [m.groups, m.rows], f16_rows(transposed(m.scales))),
    }


def packed_tensors(m, symmetric):
    count = 32 // m.bits
    out = {
        "weight_packed": ("I32", [m.rows, m.cols // count], b"".join(words(row, m.bits) for row in m.codes)),
        "weight_shape": ("I64", [2], struct.pack("<2q", m.rows, m.cols)),
        "weight_scale": ("BF16", [m.rows, m.groups], bf16_rows(m.scales)),
    }
    if not symmetric:
        columns = [words(column, m.bits) for column in transposed(m.zeros)]
        height = len(columns[0]) // 4
        data = b"".join(column[4 * k : 4 * k + 4] for k in range(height) for column in columns)
        out["weight_zero_point"] = ("I32", [height, m.groups], data)
    return out


def byte_tensors(m):
    signed = [code & 0xFF for row in m.codes for code in row]
    zeros = [zero & 0xFF for row in m.zeros for zero in row]
    return {
        "weight": ("I8", [m.rows, m.cols], bytes(signed)),
        "weight_scale": ("BF16", [m.rows, m.groups], bf16_rows(m.scales)),
        "weight_zero_point": ("I8", [m.rows, m.groups], bytes(zeros)),
    }


def float_tensors(m, scale_name, shape):
    return {
        "weight": ("F8_E4M3", [m.rows, m.cols], bytes(code for row in m.codes for code in row)),
        scale_name: ("F32", shape, f32_rows(m.scales)),
    }


def constant_zeros(m):
    m.zeros = [[1 << (m.bits - 1)] * m.groups for _ in range(m.rows)]
    return m


def act_order(m, rng):
    rng.shuffle(m.group_of)
    return m


def compressed_tensors(format, weights):
    group = {"targets": ["Linear"], "format": format, "weights": weights, "input_activations": None}
    config = {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed"}
    return config | {"config_groups": {"group_0": group}, "ignore": ["lm_head"]}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False}
MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}

# Name → the file with the configuration, the configuration, and a function of (rng, rows, cols) that makes a matrix and its tensors.
FORMATS = {}


def format(name, config, file="config.json"):
    def add(make):
        FORMATS[name] = (file, config, make)
        return make

    return add


@format("fp8-blocks", {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 40]})
def _(rng, rows, cols):
    m = Floats(rng, rows, cols, 48, 40)
    return m, float_tensors(m, "weight_scale_inv", [len(m.scales), len(m.scales[0])])


@format("fp8-tensor", {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})
def _(rng, rows, cols):
    m = Floats(rng, rows, cols, rows, cols)
    return m, float_tensors(m, "weight_scale", []) | {"input_scale": ("F32", [], struct.pack("<f", 0.5))}


@format("fbgemm", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]})
def _(rng, rows, cols):
    m = Floats(rng, rows, cols, 1, cols)
    return m, float_tensors(m, "weight_scale", [rows, 1])


@format("modelopt", MODELOPT, "hf_quant_config.json")
def _(rng, rows, cols):
    m = Floats(rng, rows, cols, rows, cols)
    return m, float_tensors(m, "weight_scale", [])


@format("float-quantized", compressed_tensors("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}))
def _(rng, rows, cols):
    m = Floats(rng, rows, cols, 1, cols)
    return m, float_tensors(m, "weight_scale", [rows, 1])


@format("int-quantized", compressed_tensors("int-quantized", INT4 | {"num_bits": 8}))
def _(rng, rows, cols):
    m = Matrix(rng, rows, cols, 8, 32, signed=True)
    m.zeros = [[zero // 8 for zero in row] for row in m.zeros]  # so that the values have a mean near 0
    return m, byte_tensors(m)


@format("pack-quantized-4", compressed_tensors("pack-quantized", INT4))
def _(rng, rows, cols):
    m = Matrix(rng, rows, cols, 4, 32)
    return m, packed_tensors(m, symmetric=False)


@format("pack-quantized-8", compressed_tensors("pack-quantized", INT4 | {"num_bits": 8, "symmetric": True}))
def _(rng, rows, cols):
    m = constant_zeros(Matrix(rng, rows, cols, 8, 32))
    return m, packed_tensors(m, symmetric=True)


@format("gptq-4", GPTQ)
def _(rng, rows, cols):
    m = Matrix(rng, rows, cols, 4, 32, lowest_zero=1)
    return m, gptq_tensors(m, 1)


@format("gptq-8-act-order", GPTQ | {"bits": 8, "desc_act": True}, "quantize_config.json")
def _(rng, rows, cols):
    m = act_order(Matrix(rng, rows, cols, 8, 32, lowest_zero=1), rng)
    return m, gptq_tensors(m, 1)


@format("gptq-4-act-order", GPTQ | {"desc_act": True})
def _(rng, rows, cols):
    m = act_order(Matrix(rng, rows, cols, 4, 32, lowest_zero=1), rng)
    return m, gptq_tensors(m, 1)


@format("gptq-v2", GPTQ | {"checkpoint_format": "gptq_v2", "group_size": -1})
def _(rng, rows, cols):
    m = Matrix(rng, rows, cols, 4, cols)
    return m, gptq_tensors(m, 0)


@format("awq", {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"})
def _(rng, rows, cols):
    m = Matrix(rng, rows, cols, 4, 32)
    return m, awq_tensors(m)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    with open(path, "wb") as file:
        file.write(tiny_model.safetensors(header, 0) + data)


def write(quantised, dense, name, seed=1):
    """Writes both directories."""
    file, config, make = FORMATS[name]
    rng = random.Random(f"{name} {seed}")
    weights, same = {}, {}
    for tensor, shape in tiny_model.tensor_shapes(tiny_model.config()).items():
        module = tensor.removesuffix(".weight")
        if module.rsplit(".", 1)[-1] in MODULES:
            matrix, parts = make(rng, *shape)
            weights |= {f"{module}.{part}": content for part, content in parts.items()}
            same[tensor] = ("BF16", shape, bf16_rows(matrix.values()))
        else:
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            plain = [rng.uniform(-1, 1) if len(shape) > 1 else rng.uniform(0.5, 1.5) for _ in range(count)]
            weights[tensor] = same[tensor] = ("BF16", shape, bf16_rows([plain]))
    for directory, tensors in ((quantised, weights), (dense, same)):
        tiny_model.write(directory, weights=False)
        write_safetensors(os.path.join(directory, "model.safetensors"), tensors)
    with open(os.path.join(quantised, "config.json"), encoding="utf-8") as old:
        model = json.load(old)
    if file == "config.json":
        model["quantization_config"] = config
    else:
        tiny_model.write_json(os.path.join(quantised, file), config)
    tiny_model.write_json(os.path.join(quantised, "config.json"), model)
