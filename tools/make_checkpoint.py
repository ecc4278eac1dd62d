#!/usr/bin/env python3
"""Writes a Hugging Face model directory with the random weights of docs/random_weights.md. Needs numpy only.

    tools/make_checkpoint.py llama-3.2-1b OUT_DIR --seed 1
    tools/make_checkpoint.py tiny OUT_DIR --dtype F32 --shards 3 --set tie_word_embeddings=true

MODEL is a preset of configs/, "tiny", "tiny-qwen2", "tiny-qwen3", "tiny-mistral", or the path of a config.json. Every dtype holds the
values exactly, so all files load to the same bits. There is no tokenizer: compare logits or token ids.
"""

import argparse
import json
import pathlib
import struct

import numpy as np
import random_weights

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"
DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
CHUNK_ELEMENTS = 1 << 24  # bounds the memory that a large tensor takes

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": [1],
}


# Tiny models of other architectures: their differences from TINY.
TINY_OF = {
    "tiny-qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-06},
    "tiny-qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-06, "head_dim": 128},
    "tiny-mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None},
}
QKV_BIAS = {"qwen2"}  # by model_type: Q, K and V have biases
QK_NORM = {"qwen3"}  # the heads of Q and K have norms


def read_config(model):
    if model == "tiny" or model in TINY_OF:
        return TINY | TINY_OF.get(model, {})
    path = CONFIGS / f"{model}.json"
    config = json.loads((path if path.exists() else pathlib.Path(model)).read_text())
    config.pop("name", None)
    return config


def tensor_shapes(config):
    """Name → shape, in the order of a forward pass."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    query, key_value = heads * head_dim, config.get("num_key_value_heads", heads) * head_dim
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for layer in range(config["num_hidden_layers"]):
        parts = {
            "input_layernorm": [hidden],
            "self_attn.q_proj": [query, hidden],
            "self_attn.k_proj": [key_value, hidden],
            "self_attn.v_proj": [key_value, hidden],
            "self_attn.o_proj": [hidden, query],
            "post_attention_layernorm": [hidden],
            "mlp.gate_proj": [inner, hidden],
            "mlp.up_proj": [inner, hidden],
            "mlp.down_proj": [hidden, inner],
        }
        shapes |= {f"model.layers.{layer}.{part}.weight": shape for part, shape in parts.items()}
        if config["model_type"] in QKV_BIAS:
            for part in ("q_proj", "k_proj", "v_proj"):
                shapes[f"model.layers.{layer}.self_attn.{part}.bias"] = parts[f"self_attn.{part}"][:1]
        if config["model_type"] in QK_NORM:
            for part in ("q_norm", "k_norm"):
                shapes[f"model.layers.{layer}.self_attn.{part}.weight"] = [head_dim]
    shapes["model.norm.weight"] = [hidden]
    if not config.get("tie_word_embeddings", False):
        shapes["lm_head.weight"] = [config["vocab_size"], hidden]
    return shapes


def encode(values, dtype):
    if dtype == "BF16":
        return random_weights.bf16_bits(values).tobytes()
    return values.astype("<f2" if dtype == "F16" else "<f4").tobytes()


def byte_count(shape, dtype):
    return int(np.prod(shape, dtype=np.int64)) * DTYPE_BYTES[dtype]


def write_safetensors(path, shapes, seed, dtype):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        end = offset + byte_count(shape, dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            elements = int(np.prod(shape, dtype=np.int64))
            for first in range(0, elements, CHUNK_ELEMENTS):
                count = min(CHUNK_ELEMENTS, elements - first)
                file.write(encode(random_weights.values(name, seed, shape[-1], count, first), dtype))


def split_into_shards(shapes, shards, dtype):
    """Consecutive tensors, each shard of about the same number of bytes."""
    total = sum(byte_count(shape, dtype) for shape in shapes.values())
    parts, done = [{} for _ in range(shards)], 0
    for name, shape in shapes.items():
        parts[min(shards - 1, done * shards // total)][name] = shape
        done += byte_count(shape, dtype)
    return [part for part in parts if part]


def write_weights(out_dir, shapes, seed, dtype, shards):
    if shards == 1:
        return write_safetensors(out_dir / "model.safetensors", shapes, seed, dtype)
    parts = split_into_shards(shapes, shards, dtype)
    weight_map = {}
    for number, part in enumerate(parts, 1):
        file_name = f"model-{number:05}-of-{len(parts):05}.safetensors"
        write_safetensors(out_dir / file_name, part, seed, dtype)
        weight_map |= {name: file_name for name in part}
    total = sum(byte_count(shape, dtype) for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (out_dir / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def parse_setting(text):
    key, _, value = text.partition("=")
    return key, json.loads(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help='a preset of configs/, "tiny", "tiny-ARCHITECTURE", or a config.json')
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPE_BYTES, default="BF16")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--set", type=parse_setting, action="append", default=[], metavar="FIELD=JSON",
                        help="changes a field of the configuration")
    args = parser.parse_args()

    config = read_config(args.model) | dict(args.set)
    config["torch_dtype"] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[args.dtype]
    args.out_dir.mkdir(parents=True, exist_ok=True)
    (args.out_dir / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_weights(args.out_dir, tensor_shapes(config), args.seed, args.dtype, args.shards)


if __name__ == "__main__":
    main()
