#!/usr/bin/env python3
"""Records how transformers reads the files that a directory has beside its tokenizer.

    tools/added_token_goldens.py [tests/data/tokenizer]

Writes added_tokens.json: for each case the directory's tokenizer, the other files' contents, and what transformers'
AutoTokenizer encodes and decodes of some texts. Needs transformers and sentencepiece (tools/requirements.txt); the
versions are recorded.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import sentencepiece  # noqa: E402
import tokenizers  # noqa: E402
import transformers  # noqa: E402  (reads the variable)

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
SLOW = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}
TOKENIZERS = {
    "gpt2": (DATA / "tokenizer" / "gpt2" / "tokenizer.json", FAST),
    "llama3": (DATA / "tokenizer" / "llama3" / "tokenizer.json", FAST),
    "sentencepiece": (DATA / "gguf" / "llama" / "tokenizer.model", SLOW),
}
TEXTS = [
    "", "x", " x", "  x y", "<s>x", "<s> x", "x</s>y</s> z", "a <|begin_turn|>user\nHello.<|end_turn|>\n",
    "<|begin_turn|><|end_turn|>", "one <extra>  two", "one<extra>two", "<|end_of_text|> after", "<|eot_id|>  \n x", "<pad>x<unk>",
]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} | flags


def size_of(name):
    path, _ = TOKENIZERS[name]
    if path.suffix == ".model":
        return sentencepiece.SentencePieceProcessor(model_file=str(path)).vocab_size()
    tree = json.loads(path.read_text())
    ids = list(tree["model"]["vocab"].values()) + [added["id"] for added in tree["added_tokens"]]
    return max(ids) + 1


def cases():
    for name in TOKENIZERS:
        end = size_of(name)
        start, stop, extra = str(end), str(end + 1), str(end + 2)
        chat = {start: token("<|begin_turn|>"), stop: token("<|end_turn|>")}
        yield name, {}
        yield name, {"tokenizer_config.json": {"added_tokens_decoder": chat}}
        yield name, {"tokenizer_config.json": {"added_tokens_decoder": chat, "eos_token": "<|end_turn|>"}}
        yield name, {"tokenizer_config.json": {"added_tokens_decoder": chat | {
            extra: token("<extra>", special=False, lstrip=True, rstrip=True)}}}
        yield name, {"tokenizer_config.json": {"added_tokens_decoder": chat | {
            extra: token("<extra>", special=False, single_word=True)}, "add_eos_token": True, "eos_token": "<|end_turn|>"}}
        yield name, {"added_tokens.json": {"<|end_turn|>": end + 1, "<|begin_turn|>": end}}
        # Control pieces of tokenizer.model stay special in Serval; transformers forgets </s> where it is not named.
        named = {} if name == "sentencepiece" else {"eos_token": "<|end_turn|>"}
        yield name, {"added_tokens.json": {"<|end_turn|>": end + 1, "<|begin_turn|>": end},
                     "tokenizer_config.json": named | {"additional_special_tokens": ["<|begin_turn|>"]}}
        yield name, {"added_tokens.json": {"<|end_turn|>": end + 1, "<|begin_turn|>": end},
                     "special_tokens_map.json": {"eos_token": {"content": "<|end_turn|>", "lstrip": False, "normalized": False,
                                                               "rstrip": True, "single_word": False}}}
        yield name, {"tokenizer_config.json": {"added_tokens_decoder": chat, "added_tokens": None},
                     "added_tokens.json": {"<|begin_turn|>": end}}
    ids = {added["content"]: added["id"] for added in json.loads(TOKENIZERS["llama3"][0].read_text())["added_tokens"]}
    begin = "<|begin_of_text|>"
    for flags in ({"rstrip": True}, {"special": False}, {"lstrip": True, "rstrip": True}):
        yield "llama3", {"tokenizer_config.json": {"added_tokens_decoder": {
            str(ids["<|eot_id|>"]): token("<|eot_id|>", **flags), str(ids[begin]): token(begin)}}}
    for flags in ({"add_bos_token": False}, {"add_bos_token": True}, {"add_bos_token": True, "add_eos_token": True}):
        yield "llama3", {"tokenizer_config.json": {"bos_token": begin, "eos_token": "<|eot_id|>"} | flags}
    for legacy in ({}, {"legacy": False}, {"legacy": True}, {"legacy": None}):
        for prefix in ({}, {"add_prefix_space": False}, {"add_prefix_space": True}):
            for around in ({}, {"add_bos_token": False}, {"add_eos_token": True}):
                yield "sentencepiece", {"tokenizer_config.json": legacy | prefix | around}


def golden(name, files):
    path, config = TOKENIZERS[name]
    files = files | {"tokenizer_config.json": config | files.get("tokenizer_config.json", {})}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(path, folder)
        (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    results = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=True)
        results.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                        "with_special": tokenizer.decode(ids, skip_special_tokens=False)})
    return {"tokenizer": str(path.relative_to(DATA)), "files": files, "results": results}


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "tokenizer"
    lines = ",\n".join(json.dumps(golden(*case), ensure_ascii=True) for case in cases())
    versions = json.dumps({"transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
                           "sentencepiece": sentencepiece.__version__})
    (out / "added_tokens.json").write_text(f'{{"versions": {versions},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
