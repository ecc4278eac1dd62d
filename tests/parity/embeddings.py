#!/usr/bin/env python3
"""Compares embeddings of `serval embed` with those of transformers: the last hidden states of an fp32 pass, pooled and
normalised. Their cosine must be at least 0.9999, with the last token, the mean and the first token; or at least that of
transformers' own bf16 pass, where it is less for one of the texts (the first token of SmolLM2, alone, is that sensitive).

The models are the bundled one; tiny ones of each family in the layout of Qwen3-Embedding, with random weights, without
the prefix of their names and with an end of text that the tokenizer appends; and SmolLM2-135M-Instruct, where its file
is there (`make chat` fetches it) and Python has gguf and accelerate. Bits must not depend on the passes' sizes. Needs
torch and transformers; exits with 77 where they are not installed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"embeddings: SKIPPED, {missing.name} is not installed (pip install torch transformers)", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUNDLED = ROOT / "assets" / "serval-stories"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "serval"  # tools/fetch_smollm2.py
SMOLLM2 = CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"
SERVAL = os.environ["SERVAL_TEST_PROGRAM"]
GATE = 0.9999
TEXTS = [
    "Once upon a time",
    "x",
    "A small robot found a red ball in the garden. " * 12,
    "Wörter mit Umlauten: ä, ö, ü und ß.",
    "The king and the queen went to the sea. " * 3,
]
MODES = {"last": "pooling_mode_lasttoken", "mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def ours(model, *flags):
    prompts = [part for text in TEXTS for part in ("-p", text)]
    command = [SERVAL, "embed", "--backend", "host", "-m", model, *prompts, *flags]
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def theirs(model, pooling, dtype=torch.float32):
    """The embeddings, and each text's number of tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    network = transformers.AutoModel.from_pretrained(model, dtype=dtype).eval()
    embeddings, counts = [], []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            hidden = network(ids).last_hidden_state[0].double()
        pooled = {"last": hidden[-1], "mean": hidden.mean(dim=0), "cls": hidden[0]}[pooling]
        embeddings.append(torch.nn.functional.normalize(pooled, dim=0))
        counts.append(ids.shape[1])
    return embeddings, counts


def cosine_of(one, other):
    return torch.dot(one, other).item()


def least_of_bf16(model, pooling, wanted):
    found, _ = theirs(model, pooling, torch.bfloat16)
    return min(map(cosine_of, found, wanted))


def compare(name, model, flags_of):
    """flags_of(pooling): the flags with which the command pools so."""
    worst = 1.0
    for pooling in MODES:
        wanted, counts = theirs(model, pooling)
        found = ours(model, *flags_of(pooling))
        assert found == ours(model, *flags_of(pooling), "--max-batch-tokens", "512"), f"{name}: {pooling}: other bits in one pass"
        for text, answer, embedding, tokens in zip(TEXTS, found, wanted, counts, strict=True):
            assert answer["tokens"] == tokens, f"{name}: {text[:20]!r}: {answer['tokens']} tokens, transformers has {tokens}"
            values = torch.tensor(answer["embedding"], dtype=torch.float64)
            assert abs(values.norm().item() - 1) < 1e-6, f"{name}: {pooling}: length {values.norm()}"
            cosine = cosine_of(values, embedding)
            gate = GATE if cosine >= GATE else min(GATE, least_of_bf16(model, pooling, wanted))
            assert cosine >= gate, f"{name}: {pooling}: {text[:20]!r}: cosine {cosine}; limit: {gate}"
            worst = min(worst, cosine)
    print(f"{name}: {len(TEXTS)} texts, last, mean and cls: least cosine {worst:.7f}; the same bits however they are read")


def write_pooling(folder, pooling):
    """modules.json and 1_Pooling as sentence-transformers writes them."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "Query:", "document": ""}}))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({mode: name == pooling for name, mode in MODES.items()}))


def append_end_of_text(file):
    """Makes the tokenizer end each text with its end of text, as Qwen3-Embedding's does."""
    tokenizer = json.loads(file.read_text())
    end = tokenizer["added_tokens"][-1]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end["content"], "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end["content"], "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {end["content"]: {"id": end["content"], "ids": [end["id"]], "tokens": [end["content"]]}},
    }
    file.write_text(json.dumps(tokenizer))


def write_tiny(folder, model_type):
    """A model of the family with random weights, as transformers' class without an LM head stores it."""
    torch.manual_seed(7)
    sizes = {"hidden_size": 192, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
             "vocab_size": 3072, "max_position_embeddings": 1024, "tie_word_embeddings": False, "initializer_range": 0.08}
    if model_type == "mistral":
        sizes["sliding_window"] = None
    if model_type == "qwen2":
        del sizes["head_dim"]
        sizes["hidden_size"] = 256
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    network = transformers.AutoModel.from_config(config).to(torch.bfloat16)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("norm.weight"):
                parameter.copy_(1 + torch.randn_like(parameter) / 4)
            elif name.endswith("bias"):
                parameter.copy_(torch.randn_like(parameter) / 10)
    network.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    assert not any(name.startswith(("model.", "lm_head")) for name in weights), sorted(weights)[:3]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BUNDLED / name, folder)
    append_end_of_text(folder / "tokenizer.json")


def main():
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    compare("bundled model", BUNDLED, lambda pooling: ("--pooling", pooling))
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        with tempfile.TemporaryDirectory(prefix="embeddings-") as name:
            folder = pathlib.Path(name)
            write_tiny(folder, family)

            def of_files(pooling, folder=folder):
                write_pooling(folder, pooling)
                return ()

            compare(f"tiny {family}, as sentence-transformers stores it", folder, of_files)
    if not SMOLLM2.is_file():
        print(f"embeddings: SmolLM2 SKIPPED, {SMOLLM2} is not there (tools/fetch_smollm2.py)", file=sys.stderr)
        return
    try:
        import smollm2
    except SystemExit:  # packages are missing, as it has said
        return
    with tempfile.TemporaryDirectory(prefix="embeddings-") as name:
        smollm2.convert(SMOLLM2, pathlib.Path(name))
        compare("SmolLM2-135M-Instruct", pathlib.Path(name), lambda pooling: ("--pooling", pooling))


if __name__ == "__main__":
    main()
