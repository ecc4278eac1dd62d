#!/usr/bin/env python3
"""Held-out loss and samples of a finished directory, through Hugging Face transformers in fp32.

    ./evaluate.py --model assets/serval-stories [--held-out held.bin] [--prompt TEXT]... [--chat TEXT]... [--temperature 0 0.8]

--chat gives one user turn; "a // b" gives several, each answered before the next.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from train import Rows, held_out_loss

PROMPTS = [
    "Once upon a time, there was a little fox",
    "The old lighthouse",
    "It was raining, and Mia",
    "One day, a robot named Zip",
    "Lily and Ben were best friends.",
    "A tiny dragon could not breathe fire.",
]
REQUESTS = [
    "Tell me a story about a fox who wants to fly.",
    "Tell me a bedtime story about a lonely cloud.",
    "Can you tell me a story about a penguin named Otto and a lost kite?",
    "What is the capital of France?",
]


def answer(model, tokenizer, ids, temperature, count):
    inputs = torch.tensor([ids])
    sampling = (
        {"do_sample": False, "temperature": None, "top_p": None}
        if temperature == 0
        else {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}
    )
    out = model.generate(
        inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=count, pad_token_id=0, **sampling
    )[0, len(ids) :].tolist()
    ended = out[-1] in model.generation_config.eos_token_id
    return tokenizer.decode(out, skip_special_tokens=True), len(out), ended


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--held-out", help="packed token ids, see pack.py")
    parser.add_argument("--rows", type=int, default=40, help="held-out rows of --length positions")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--prompt", action="append")
    parser.add_argument("--chat", action="append")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 0.8])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    torch.manual_seed(args.seed)
    if args.held_out:
        rows = Rows(args.held_out, args.length, 0).epoch(shuffle=False)[: args.rows]

        def loss(ids, targets):
            return torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), targets.flatten())

        print(
            f"held-out loss {held_out_loss(loss, rows, 1, 'cpu', len(rows)):.4f} nats a token over {rows.numel()} tokens"
        )
    given = args.prompt is not None or args.chat is not None
    for temperature in args.temperature:
        for prompt in (args.prompt or []) if given else PROMPTS:
            text, count, ended = answer(
                model, tokenizer, tokenizer(prompt).input_ids, temperature, args.tokens
            )
            print(
                f"--- prompt, temperature {temperature}, {count} tokens{'' if ended else ', no end'}\n{prompt}{text}\n"
            )
        for request in (args.chat or []) if given else REQUESTS:
            messages = []
            for turn in request.split(" // "):
                messages.append({"role": "user", "content": turn})
                written = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                text, count, ended = answer(
                    model,
                    tokenizer,
                    tokenizer(written, add_special_tokens=False).input_ids,
                    temperature,
                    args.tokens,
                )
                messages.append({"role": "assistant", "content": text})
                print(
                    f"--- chat, temperature {temperature}, {count} tokens{'' if ended else ', no end'}\n> {turn}\n{text}\n"
                )


if __name__ == "__main__":
    main()
