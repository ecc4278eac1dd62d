#!/usr/bin/env python3
"""Writes goldens.json beside it: logits of Hugging Face transformers for small models of random weights.

Needs numpy, torch and transformers. The models are those of tools/make_checkpoint.py; each case holds its configuration,
seed and tokens, the fp32 logits of some columns at every position, and the mean relative error of transformers' own
bf16 pass against its fp32 pass.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MAKE_CHECKPOINT = HERE.parent.parent.parent / "tools" / "make_checkpoint.py"
TOKENS = 40
COLUMNS = 16
DECIMALS = 6

CASES = {
    "plain": {"seed": 5, "set": {}},
    "llama3 scaling, tied, head_dim 128": {
        "seed": 6,
        "set": {
            "head_dim": 128,
            "num_hidden_layers": 3,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "rope_theta": 500.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
    },
}


def make_checkpoint(folder, case):
    settings = [f"--set={name}={json.dumps(value)}" for name, value in case["set"].items()]
    subprocess.run(
        [sys.executable, "-B", MAKE_CHECKPOINT, "tiny", folder, "--seed", str(case["seed"]), *settings], check=True
    )
    return json.loads((folder / "config.json").read_text())


def logits_of(folder, tokens, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].double()


def golden(name, case):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        config = make_checkpoint(folder, case)
        vocab = config["vocab_size"]
        tokens = torch.randint(vocab, (TOKENS,), generator=torch.Generator().manual_seed(case["seed"])).tolist()
        fp32 = logits_of(folder, tokens, torch.float32)
        bf16 = logits_of(folder, tokens, torch.bfloat16)
    columns = list(range(0, vocab, vocab // COLUMNS))[:COLUMNS]
    error = ((bf16 - fp32).norm(dim=-1) / fp32.norm(dim=-1)).mean()
    return {
        "name": name,
        "config": config,
        "seed": case["seed"],
        "tokens": tokens,
        "columns": columns,
        "logits": [[round(x, DECIMALS) for x in row] for row in fp32[:, columns].tolist()],
        "bf16_mean_relative_error": round(error.item(), DECIMALS),
    }


def main():
    goldens = {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "cases": [golden(name, case) for name, case in CASES.items()],
    }
    (HERE / "goldens.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
