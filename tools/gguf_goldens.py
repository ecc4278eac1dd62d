#!/usr/bin/env python3
"""Writes the GGUF files that tests/gguf compares with, by the `gguf` package of PyPI (tools/requirements.txt).

    python3 tools/gguf_goldens.py [tests/data/gguf]

types.gguf     a tensor of random blocks for each type that Serval reads, and beside it, as F32 and called NAME.values, what
               `gguf` dequantises it to
NAME.gguf      the vocabulary of a small tokenizer of the family (llama-bpe, qwen2, smollm, gpt-2, tekken, llama), trained
               here; llama is trained by `sentencepiece`
llama/         the same as tokenizer.model and, with the merges that transformers makes of it, as tokenizer.json
goldens.json   for each family, what `tokenizers` (or `sentencepiece`) encodes tests/data/tokenizer/strings.json to: a
               32-bit FNV-1a hash of each string's ids as 32-bit little-endian numbers

Running it again writes the same bytes.
"""

import io
import json
import pathlib
import random
import struct
import sys

import gguf
import numpy as np
import sentencepiece
import tokenizer_goldens
import tokenizers
from gguf import GGMLQuantizationType as Type
from gguf import TokenType
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROWS, COLUMNS = 3, 512
SEED = 20240601

# Offsets of the fp16 numbers of a block; all other bytes may be any bits.
HALVES = {
    Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}  # fmt: skip


def random_halves(rng, count):
    """Returns random fp16 numbers of both signs and all sizes, including subnormal ones, but no infinities."""
    scale = np.exp2(rng.uniform(-22, 4, count))
    return (rng.standard_normal(count) * scale).astype(np.float16).view(np.uint8).reshape(count, 2)


def random_blocks(rng, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLUMNS // elements
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in HALVES[kind]:
        blocks[:, offset : offset + 2] = random_halves(rng, count)
    return blocks.reshape(ROWS, -1)


def random_numbers(rng, kind):
    values = (rng.standard_normal((ROWS, COLUMNS)) * np.exp2(rng.uniform(-20, 10, (ROWS, COLUMNS)))).astype(np.float32)
    if kind == Type.F32:
        return values
    if kind == Type.F16:
        return values.astype(np.float16)
    return gguf.quants.quantize(values, kind)


def write_types(path):
    writer = gguf.GGUFWriter(path, "none")
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("words", ["", "é", "three"])
    rng = np.random.default_rng(SEED)
    for kind in (Type.F32, Type.F16, Type.BF16, *HALVES):
        data = random_blocks(rng, kind) if kind in HALVES else random_numbers(rng, kind)
        values = np.ascontiguousarray(gguf.quants.dequantize(data, kind), dtype=np.float32)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.add_tensor(f"{kind.name}.values", values)
    close(writer)


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# As the tokenizer.json of Qwen2.5, SmolLM2 and Mistral NeMo has them.
QWEN2_SPLIT = tokenizer_goldens.LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def split_by(pattern):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


def byte_level_families():
    """Name → pre-tokenizer, ignore_merges, normalizer."""
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return {
        "llama-bpe": (split_by(tokenizer_goldens.LLAMA3_SPLIT), True, None),
        "qwen2": (split_by(QWEN2_SPLIT), False, normalizers.NFC()),
        "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2]), False, None),
        "gpt-2": (gpt2, False, None),
        "tekken": (split_by(TEKKEN_SPLIT), True, None),
    }


def train_byte_level(lines, pre_tokenizer, ignore_merges, normalizer):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    if ignore_merges:  # words that merges alone do not lead to
        longest = sorted(data["model"]["merges"], key=lambda m: -len("".join(m)))[:20]
        data["model"]["merges"] = [m for m in data["model"]["merges"] if m not in longest]
    return data


def write_byte_level(path, name, data):
    writer = gguf.GGUFWriter(path, "llama")
    vocabulary = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(vocabulary)
    writer.add_token_types([TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in vocabulary])
    writer.add_token_merges([" ".join(merge) for merge in data["model"]["merges"]])
    writer.add_bos_token_id(vocabulary.index(SPECIAL[0]))
    writer.add_eos_token_id(vocabulary.index(SPECIAL[2]))
    close(writer)


def train_sentencepiece(lines):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[:3100] + tokenizer_goldens.CODE), model_writer=out, model_type="bpe", vocab_size=1500, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        character_coverage=0.9995, split_digits=True, allow_whitespace_only_pieces=True, num_threads=1,
        minloglevel=2, pad_id=-1,
    )  # fmt: skip
    return out.getvalue()


def type_of(model, piece):
    if model.is_unknown(piece):
        return TokenType.UNKNOWN
    if model.is_control(piece):
        return TokenType.CONTROL
    return TokenType.BYTE if model.is_byte(piece) else TokenType.NORMAL


def write_sentencepiece(path, model):
    pieces = range(model.get_piece_size())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([model.id_to_piece(p) for p in pieces])
    writer.add_token_scores([model.get_score(p) for p in pieces])
    writer.add_token_types([type_of(model, p) for p in pieces])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    close(writer)


def merges_of(vocabulary, scores):
    """As transformers' convert_slow_tokenizer.generate_merges."""
    merges = []
    for piece, score in scores.items():
        splits = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        known = [(a, b, score) for a, b in splits if a in vocabulary and b in vocabulary]
        merges += sorted(known, key=lambda m: (vocabulary[m[0]], vocabulary[m[1]]))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(a, b) for a, b, _ in merges]


def converted(model):
    """As transformers' LlamaConverter makes a tokenizer.json."""
    vocabulary = {model.id_to_piece(p): p for p in range(model.get_piece_size())}
    scores = {piece: model.get_score(p) if p > 2 else 0.0 for piece, p in vocabulary.items()}
    bpe = models.BPE(vocabulary, merges_of(vocabulary, scores), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([tokenizers.AddedToken(t, normalized=False, special=True) for t in ("<unk>", "<s>", "</s>")])
    return tokenizer


def hash_of(ids):
    value = 0x811C9DC5
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/gguf")
    (out / "llama").mkdir(parents=True, exist_ok=True)
    write_types(out / "types.gguf")
    lines = tokenizer_goldens.training_text(random.Random(tokenizer_goldens.SEED))
    strings = tokenizer_goldens.test_strings(random.Random(tokenizer_goldens.SEED + 1))
    goldens = {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__, "ids": {}}

    def record(name, encode):
        goldens["ids"][name] = [hash_of(encode(text)) for text in strings]

    for name, family in byte_level_families().items():
        data = train_byte_level(lines, *family)
        write_byte_level(out / f"{name}.gguf", name, data)
        tokenizer = Tokenizer.from_str(json.dumps(data))
        record(name, lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
    trained = train_sentencepiece(lines)
    (out / "llama" / "tokenizer.model").write_bytes(trained)
    model = sentencepiece.SentencePieceProcessor(model_proto=trained)
    write_sentencepiece(out / "llama.gguf", model)
    record("llama", model.encode)
    fast = converted(model)
    tokenizer_goldens.write(out / "llama" / "tokenizer.json", json.loads(fast.to_str()))
    record("llama.json", lambda text: fast.encode(text, add_special_tokens=False).ids)
    fast.normalizer, fast.pre_tokenizer = normalizers.Sequence([]), pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    record("llama.metaspace", lambda text: fast.encode(text, add_special_tokens=False).ids)
    tokenizer_goldens.write(out / "goldens.json", goldens)


if __name__ == "__main__":
    main()
