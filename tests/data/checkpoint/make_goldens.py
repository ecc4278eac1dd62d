#!/usr/bin/env python3
"""Writes the goldens beside it. Needs numpy, torch and transformers; those committed came from transformers 5.23.0.

rope.json            inverse frequencies of transformers' LlamaRotaryEmbedding for every preset and some odd shapes
random_weights.json  elements of tools/random_weights.py
"""

import copy
import json
import pathlib
import sys

import transformers
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import random_weights  # noqa: E402  (found by the line above)

SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "max_position_embeddings": 131072,
}
ODD_ROPE = [
    {"rope_theta": 10000.0},
    {"rope_theta": 1000000.0, "head_dim": 128},
    {
        "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.5, "high_freq_factor": 7.25,
                         "original_max_position_embeddings": 1000},
    },
    {
        "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 32.0, "original_max_position_embeddings": 8192},
    },
]


def rope_goldens():
    presets = sorted(path for path in (ROOT / "configs").glob("*.json") if path.name != "schema.json")
    configs = [json.loads(path.read_text()) for path in presets] + [SHAPE | odd for odd in ODD_ROPE]
    cases = []
    for config in configs:
        rope = LlamaRotaryEmbedding(transformers.LlamaConfig(**copy.deepcopy(config)))  # it writes into its argument
        cases.append({"config": config, "inverse_frequencies": rope.inv_freq.tolist()})
    return {"transformers": transformers.__version__, "cases": cases}


def random_weight_goldens():
    cases = []
    for name, seed, cols, first in [
        ("model.embed_tokens.weight", 0, 2048, 0),
        ("model.embed_tokens.weight", 1, 2048, 0),
        ("model.layers.0.self_attn.q_proj.weight", 1, 4096, 4096),
        ("model.layers.15.mlp.down_proj.weight", 1, 8192, 16777200),
        ("model.layers.79.mlp.down_proj.weight", 2**64 - 1, 28672, 2**32 + 8),
        ("lm_head.weight", 123456789012345, 128, 0),
        ("model.layers.3.input_layernorm.weight", 1, 2048, 0),
        ("model.norm.weight", 7, 8192, 8),
    ]:
        bits = random_weights.bf16_bits(random_weights.values(name, seed, cols, 20, first))
        cases.append({"name": name, "seed": seed, "columns": cols, "first": first, "bf16": [int(b) for b in bits]})
    return {"cases": cases}


def write(name, goldens):
    lines = ",\n".join(json.dumps(case) for case in goldens.pop("cases"))
    head = "".join(f'"{key}": {json.dumps(value)},\n' for key, value in goldens.items())
    (HERE / name).write_text(f'{{{head}"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    write("rope.json", rope_goldens())
    write("random_weights.json", random_weight_goldens())
