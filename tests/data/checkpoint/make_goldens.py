#!/usr/bin/env python3
"""Writes the goldens beside it. Needs numpy, torch and transformers; those committed came from transformers 5.23.0.

rope.json            inverse frequencies and attention factors of transformers' rotary embeddings: every preset, some odd
                     shapes, and every type of RoPE in each family and in each place that a config.json has for it
random_weights.json  elements of tools/random_weights.py
"""

import copy
import json
import pathlib
import sys

import transformers
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.mistral.modeling_mistral import MistralRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

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


# By model_type: the configuration and the rotary embedding, and what a config.json of the family has beside SHAPE.
FAMILIES = {
    "llama": (transformers.LlamaConfig, LlamaRotaryEmbedding, {"head_dim": 64}),
    "mistral": (transformers.MistralConfig, MistralRotaryEmbedding, {"head_dim": 128, "sliding_window": None}),
    "qwen2": (transformers.Qwen2Config, Qwen2RotaryEmbedding, {}),
    "qwen3": (transformers.Qwen3Config, Qwen3RotaryEmbedding, {"head_dim": 128}),
}
CLASS_NAMES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
               "qwen3": "Qwen3ForCausalLM"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
SCALINGS = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.5},
    {"type": "linear", "factor": 4},
    {"rope_type": "dynamic", "factor": 2.0},
    YARN,
    {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096, "finetuned": True},
    {"rope_type": "yarn", "factor": 2.0},
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 32768},
    YARN | {"attention_factor": 1.25},
    YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    YARN | {"beta_fast": 24, "beta_slow": 2.5},
    YARN | {"beta_fast": 0, "beta_slow": 0},
    YARN | {"beta_fast": 8, "beta_slow": 8, "truncate": True},
    YARN | {"beta_fast": 48.5, "truncate": False},
    YARN | {"factor": 1.0},
    YARN | {"original_max_position_embeddings": 16},
    LLAMA3,
    LLAMA3 | {"factor": 32.0, "high_freq_factor": 2.0},
]
THETA = {"rope_theta": 1000000.0}
# Each scaling in each of these places.
PLACES = [
    lambda scaling: THETA | {"rope_scaling": scaling},
    lambda scaling: {"rope_parameters": scaling | THETA},
    lambda scaling: {"rope_scaling": scaling | THETA},
    lambda scaling: THETA | {"rope_parameters": THETA | {"rope_type": "default"}, "rope_scaling": scaling},
    lambda scaling: THETA | {"rope_parameters": scaling | THETA, "rope_scaling": scaling},
    lambda scaling: {"rope_scaling": {}, "rope_parameters": scaling | THETA},
]


def scaled_configs():
    """Every family and scaling, each in one place, so that each scaling is in each place in some family."""
    for family, (_, _, more) in FAMILIES.items():
        base = SHAPE | {"architectures": [CLASS_NAMES[family]], "model_type": family, "num_key_value_heads": 2,
                        "max_position_embeddings": 131072} | more
        for scaling in SCALINGS:
            for place in PLACES if family == "llama" or scaling is YARN else PLACES[:2]:
                yield base | place(scaling)
        yield base | THETA | {"original_max_position_embeddings": 8192, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}


def golden(config):
    family = next(family for family, name in CLASS_NAMES.items() if config["architectures"] == [name])
    make_config, make_rope, _ = FAMILIES[family]
    rope = make_rope(make_config(**copy.deepcopy(config)))  # which writes into its arguments
    return {"config": config, "attention_factor": rope.attention_scaling,
            "inverse_frequencies": [float(f"{x:.9g}") for x in rope.inv_freq.tolist()]}  # 9 digits: exact for fp32


def rope_goldens():
    presets = sorted(path for path in (ROOT / "configs").glob("*.json") if path.name != "schema.json" and not path.name.endswith(".sim.json"))
    configs = [json.loads(path.read_text()) for path in presets] + [SHAPE | odd for odd in ODD_ROPE]
    return {"transformers": transformers.__version__, "cases": [golden(c) for c in configs + list(scaled_configs())]}


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
