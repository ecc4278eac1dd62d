"""Writes a very small Llama as a Hugging Face directory. Arguments change single values of its configuration."""

import json
import os
import struct

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BYTES = 256
BF16_BYTES = 2


def config(**changes):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "vocab_size": BYTES + len(SPECIAL),
        "max_position_embeddings": 1 << 18,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "eos_token_id": BYTES,
        "torch_dtype": "bfloat16",
        **changes,
    }


def byte_alphabet():
    """Returns GPT-2's printable character for each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(BYTES) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def tokenizer(more_tokens=()):
    """`more_tokens`: (text, special) of further added tokens."""
    tokens = [(token, True) for token in SPECIAL] + list(more_tokens)
    added = [
        {
            "id": BYTES + i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": special,
        }
        for i, (token, special) in enumerate(tokens)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {c: b for b, c in sorted(byte_alphabet().items())},
            "merges": [],
        },
    }


def tensor_shapes(c):
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    query = c["num_attention_heads"] * c["head_dim"]
    key = c["num_key_value_heads"] * c["head_dim"]
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], hidden]}
    for layer in range(c["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": [hidden],
            prefix + "self_attn.q_proj.weight": [query, hidden],
            prefix + "self_attn.k_proj.weight": [key, hidden],
            prefix + "self_attn.v_proj.weight": [key, hidden],
            prefix + "self_attn.o_proj.weight": [hidden, query],
            prefix + "post_attention_layernorm.weight": [hidden],
            prefix + "mlp.gate_proj.weight": [inner, hidden],
            prefix + "mlp.up_proj.weight": [inner, hidden],
            prefix + "mlp.down_proj.weight": [hidden, inner],
        }
    return shapes | {"model.norm.weight": [hidden]}


def safetensors_header(c):
    header, offset = {}, 0
    for name, shape in tensor_shapes(c).items():
        size = BF16_BYTES
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    return header, offset


def safetensors(header, data_bytes):
    """Returns a file with this header and zero weights."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def write(directory, weights=True, more_tokens=(), chat_template=CHATML, **config_changes):
    os.makedirs(directory, exist_ok=True)
    c = config(**{"vocab_size": BYTES + len(SPECIAL) + len(more_tokens), **config_changes})
    write_json(os.path.join(directory, "config.json"), c)
    write_json(os.path.join(directory, "tokenizer.json"), tokenizer(more_tokens))
    write_json(os.path.join(directory, "tokenizer_config.json"), {"eos_token": "<|endoftext|>", "chat_template": chat_template})
    if weights:
        with open(os.path.join(directory, "model.safetensors"), "wb") as file:
            file.write(safetensors(*safetensors_header(c)))
