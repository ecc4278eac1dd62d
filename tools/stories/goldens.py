#!/usr/bin/env python3
"""Writes parity goldens of the finished model: what Hugging Face transformers computes in fp32 from the shipped bf16 weights.

    ./goldens.py --model assets/serval-stories -o tests/data/stories/goldens.json

For each prompt: its ids, the greedy continuation, and the eight largest logits after three prefixes of the whole sequence.
`margins` holds the gap between the best two logits for each greedy token: an engine whose logits differ by less than half of
it must choose the same token, as long as it has chosen the same ones before.
"""

import argparse
import json

import tokenizers
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "Once upon a time, there was a little fox",
    "The old lighthouse",
    "Lily and Ben were best friends.",
    None,
]
REQUEST = "Tell me a story about a fox who wants to fly."
CONTINUATION = 48
TOP = 8


def golden(model, tokenizer, prompt):
    if prompt is None:
        messages = [{"role": "user", "content": REQUEST}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False).input_ids
    else:
        text, ids = prompt, tokenizer(prompt).input_ids
    sequence = list(ids)
    with torch.no_grad():
        for _ in range(CONTINUATION):
            sequence.append(int(model(torch.tensor([sequence])).logits[0, -1].argmax()))
        logits = model(torch.tensor([sequence])).logits[0]
    best = logits[len(ids) - 1 : -1].topk(2).values
    positions = [len(ids) - 1, len(ids) + CONTINUATION // 2 - 1, len(sequence) - 1]
    tops = []
    for position in positions:
        values, indices = logits[position].topk(TOP)
        tops.append(
            {"position": position, "ids": indices.tolist(), "logits": [round(v, 5) for v in values.tolist()]}
        )
    return {
        "text": text,
        "add_bos": prompt is not None,
        "ids": ids,
        "greedy": sequence[len(ids) :],
        "margins": [round(m, 4) for m in (best[:, 0] - best[:, 1]).tolist()],
        "top": tops,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    made_with = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "dtype": "float32",
    }
    lines = ",\n".join("  " + json.dumps(golden(model, tokenizer, prompt)) for prompt in PROMPTS)
    with open(args.output, "w") as out:
        out.write(f'{{"made_with": {json.dumps(made_with)},\n "prompts": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
