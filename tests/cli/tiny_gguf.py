"""Writes a very small Llama as a GGUF file with zero weights."""

import struct

import tiny_model

F32 = 0
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def value(of):
    """Returns GGUF's number of the value's type, and the value's bytes."""
    if isinstance(of, bool):
        return 7, struct.pack("<B", of)
    if isinstance(of, int):
        return 4, struct.pack("<I", of)
    if isinstance(of, float):
        return 6, struct.pack("<f", of)
    if isinstance(of, str):
        return 8, struct.pack("<Q", len(of.encode())) + of.encode()
    elements = [value(element) for element in of]
    return 9, struct.pack("<IQ", elements[0][0], len(elements)) + b"".join(data for _, data in elements)


class File:
    """A GGUF file of version 3."""

    def __init__(self, fields):
        self.fields, self.tensors, self.data = [], [], b""
        for key, of in fields.items():
            kind, data = value(of)
            self.fields.append(value(key)[1] + struct.pack("<I", kind) + data)

    def tensor(self, name, kind, shape, data):
        self.data += bytes(-len(self.data) % 32)
        place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(self.data))
        self.tensors.append(value(name)[1] + place)
        self.data += data

    def bytes(self):
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.fields))
        head += b"".join(self.fields) + b"".join(self.tensors)
        return head + bytes(-len(head) % 32) + self.data


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def write(path):
    config, alphabet = tiny_model.config(), tiny_model.byte_alphabet()
    fields = {
        "general.architecture": "llama",
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": 4096,
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.key_length": config["head_dim"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": [alphabet[b] for b in range(tiny_model.BYTES)] + tiny_model.SPECIAL,
        "tokenizer.ggml.token_type": [1] * tiny_model.BYTES + [3] * len(tiny_model.SPECIAL),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.chat_template": tiny_model.CHATML,
    }
    fields["tokenizer.ggml.tokens"][ord("z")] = "ab"  # the result of the only merge
    fields["tokenizer.ggml.tokens"][ord("~")] = alphabet[ord("z")]
    file = File(fields)
    for name, shape in tiny_model.tensor_shapes(config).items():
        elements = 1
        for extent in shape:
            elements *= extent
        file.tensor(gguf_name(name), F32, shape, bytes(4 * elements))
    with open(path, "wb") as out:
        out.write(file.bytes())
