#!/usr/bin/env python3
"""Trains the model on packed token ids and exports it as a Hugging Face directory.

    ./train.py --train train.bin --held-out held.bin --tokenizer DIR -o OUT --minutes 5      # or --steps 5000

Runs on a GPU (bf16 autocast, torch.compile) or, slowly, on a CPU. With --minutes the number of steps is fixed once the speed is
known; it is printed, so that --steps can repeat the run. A checkpoint is exported whenever --save-every seconds have passed.
"""

import argparse
import json
import math
import os
import shutil
import time

import numpy
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from model import CONFIG, Llama, export

BEGIN = CONFIG["bos_token_id"]
TIMED_STEPS = 30  # the speed is measured over these steps, after as many to warm up


class Rows:
    """Documents packed into rows of `length` + 1 ids. A row starts with a document; the last one is cut off."""

    def __init__(self, path, length, seed):
        self.ids = numpy.fromfile(path, dtype="<u2")
        starts = numpy.flatnonzero(self.ids == BEGIN)
        self.bounds = numpy.stack([starts, numpy.append(starts[1:], len(self.ids))], axis=1)
        self.length, self.random = length, numpy.random.default_rng(seed)

    def epoch(self, shuffle=True):
        """int64 [rows, length + 1]; the end of a row that nothing fills repeats BEGIN and is ignored."""
        order = self.random.permutation(len(self.bounds)) if shuffle else range(len(self.bounds))
        width = self.length + 1
        rows, pieces, used = [], [], 0
        for index in order:
            first, last = self.bounds[index]
            piece = self.ids[first : min(last, first + width - used)]
            pieces.append(piece)
            used += len(piece)
            if used == width:
                rows.append(numpy.concatenate(pieces))
                pieces, used = [], 0
        return torch.from_numpy(numpy.stack(rows).astype(numpy.int16))


def batches(rows, size, device):
    """Endless batches; each epoch shuffles the documents anew."""
    while True:
        epoch = rows.epoch().to(device)
        for first in range(0, len(epoch) - size + 1, size):
            yield epoch[first : first + size].long()


@torch.no_grad()
def held_out_loss(model, rows, size, device, most=64):
    """Mean cross-entropy in nats a token over held-out rows."""
    total = count = 0
    for first in range(0, min(len(rows), most * size) - size + 1, size):
        batch = rows[first : first + size].to(device).long()
        total += float(model(batch[:, :-1], batch[:, 1:]))
        count += 1
    return total / max(count, 1)


def learning_rate(step, steps, peak, warmup):
    """Linear warm-up, then a cosine down to a hundredth."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--minutes", type=float, help="wall-clock budget of the training loop")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rows", type=int, default=64, help="rows a batch")
    parser.add_argument("--length", type=int, default=2048, help="positions a row")
    parser.add_argument("--peak", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=int, default=300, help="steps")
    parser.add_argument("--continue-from", help="directory whose model.safetensors to start from")
    parser.add_argument("--save-every", type=float, default=100, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if (args.minutes is None) == (args.steps is None):
        parser.error("give --minutes or --steps")

    began = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer = Tokenizer.from_file(os.path.join(args.tokenizer, "tokenizer.json"))
    if tokenizer.token_to_id("<|begin_of_text|>") != BEGIN:
        raise SystemExit("the tokenizer's <|begin_of_text|> is not the model's BOS id")
    held_out = Rows(args.held_out, args.length, 0).epoch(shuffle=False)
    stream = batches(Rows(args.train, args.length, args.seed), args.rows, device)

    model = Llama().to(device)
    if args.continue_from:
        model.load_state_dict(
            {
                k: v.float()
                for k, v in load_file(os.path.join(args.continue_from, "model.safetensors")).items()
            }
        )
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=args.peak,
        betas=(0.9, 0.95),
        fused=device == "cuda",
    )
    compiled = model if args.no_compile or device == "cpu" else torch.compile(model)
    print(
        f"{sum(p.numel() for p in model.parameters())} parameters on {device}, set up in {time.time() - began:.0f} s",
        flush=True,
    )

    def evaluate():
        with torch.autocast(device, dtype=torch.bfloat16):
            return held_out_loss(
                model, held_out, min(args.rows, len(held_out)), device, 4 if device == "cpu" else 16
            )

    log, losses = [], []
    steps, step, saved = args.steps or 10**9, 0, time.time()
    loop_began = timed_from = time.time()
    while step < steps:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, args.peak, args.warmup)
        batch = next(stream)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = compiled(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        step += 1
        if args.minutes and step in (TIMED_STEPS, 2 * TIMED_STEPS):
            float(loss.detach())  # waits for the device
            if step == TIMED_STEPS:
                timed_from = time.time()
            else:
                each = (time.time() - timed_from) / TIMED_STEPS
                steps = step + max(1, int((args.minutes * 60 - (time.time() - loop_began)) * 0.96 / each))
                print(
                    f"{each * 1000:.1f} ms a step, {args.rows * args.length / each / 1e6:.2f} million tokens/s: {steps} steps",
                    flush=True,
                )
        if step % 250 == 0 or step == steps:
            mean = float(torch.stack(losses).mean())
            losses.clear()
            entry = {
                "step": step,
                "train": round(mean, 4),
                "held_out": round(evaluate(), 4) if step % 1000 == 0 or step == steps else None,
                "seconds": round(time.time() - loop_began),
            }
            log.append(entry)
            print(json.dumps(entry), flush=True)
            if args.minutes and time.time() - loop_began > args.minutes * 60 + 30:
                break
        if time.time() - saved > args.save_every:
            export(model, args.output)
            saved = time.time()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        os.makedirs(args.output, exist_ok=True)
        shutil.copy(os.path.join(args.tokenizer, name), args.output)
    export(model, args.output)

    with open(os.path.join(args.output, "training.json"), "w") as out:
        json.dump(
            {
                "steps": step,
                "tokens": step * args.rows * args.length,
                "peak": args.peak,
                "rows": args.rows,
                "length": args.length,
                "seed": args.seed,
                "log": log,
            },
            out,
            indent=1,
        )
    print(
        f"{step} steps, {step * args.rows * args.length / 1e6:.0f} million tokens, {time.time() - began:.0f} s; held-out {log[-1]['held_out'] if log else None} nats a token"
    )


if __name__ == "__main__":
    main()
