#!/usr/bin/env python3
"""Checks that SmolLM2-135M-Instruct answers equally from a GGUF file and from a Hugging Face directory.

    tests/parity/smollm2.py [--model FILE.gguf]        default: the file of `make chat`, fetched if need be

transformers makes the directory: it reads the GGUF file by itself (the package gguf dequantises), and writes weights,
config.json and tokenizer.json. Texts without sampling must be the same; then tests/parity/parity.py compares the
logits of the directory with transformers'. Needs torch, transformers, gguf and accelerate; exits with 77 where they are
not installed, or the file cannot be fetched.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import accelerate  # noqa: F401, required by transformers
    import gguf  # noqa: F401
    import torch
    import transformers
    from safetensors.torch import save_file
except ImportError as missing:
    print(f"smollm2: SKIPPED, {missing.name} is not installed (pip install torch transformers gguf accelerate)", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPTS = [
    "The capital of France is",
    "Once upon a time, there was a small robot who",
    "def fibonacci(n):\n    ",
    "Wörter mit Umlauten: ä, ö, ü und ß. 日本語も。 \U0001f680",
    "1, 1, 2, 3, 5, 8,",
]
TOKENS = 48


def fetch():
    result = subprocess.run([sys.executable, "-B", ROOT / "tools" / "fetch_smollm2.py"], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        print("smollm2: SKIPPED, the file cannot be fetched", file=sys.stderr)
        sys.exit(77)
    return pathlib.Path(result.stdout.strip())


def convert(file, folder):
    """Writes the model that transformers reads from the file as a directory. Tied weights are stored once."""
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    weights = model.state_dict()
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    save_file({name: value.to(torch.bfloat16).contiguous() for name, value in weights.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict() | {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(config, default=str))
    transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


def answers(serval, model):
    """Returns for each prompt its number of tokens, the generated text and its log-probabilities."""
    prompts = [part for prompt in PROMPTS for part in ("-p", prompt)]
    command = [serval, "generate", "--backend", "host", "-m", model, *prompts, "-n", str(TOKENS), "--temp", "0", "--json"]
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    keys = ("prompt_tokens", "text", "tokens", "log_probabilities")
    return [{key: response[key] for key in keys} for response in json.loads(result.stdout)["responses"]]


def compare(serval, file, folder):
    of_file, of_folder = answers(serval, file), answers(serval, folder)
    for prompt, ours, theirs in zip(PROMPTS, of_file, of_folder, strict=True):
        if ours != theirs:
            sys.exit(f"smollm2: {prompt!r}: the GGUF file says {ours['text']!r}, the directory {theirs['text']!r}")
    tokens = sum(len(answer["tokens"]) for answer in of_file)
    print(f"{len(PROMPTS)} prompts, {tokens} tokens: the same texts and log-probabilities from the file and the directory")


def check_logits(serval, folder):
    command = [sys.executable, "-B", ROOT / "tests" / "parity" / "parity.py", "--serval", serval, "--model", folder, "--ours-only"]
    return subprocess.run([str(part) for part in [*command, "--text", ROOT / "README.md", "--backend", "host"]]).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serval", default=os.environ.get("SERVAL_TEST_PROGRAM", ROOT / "build" / "bin" / "serval"))
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF file")
    args = parser.parse_args()

    transformers.utils.logging.disable_progress_bar()
    file = args.model or fetch()
    with tempfile.TemporaryDirectory(prefix="serval-smollm2-") as scratch:
        folder = pathlib.Path(scratch)
        convert(file, folder)
        compare(args.serval, file, folder)
        sys.exit(check_logits(args.serval, folder))


if __name__ == "__main__":
    main()
