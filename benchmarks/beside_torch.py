#!/usr/bin/env python3
"""Times the interpreter's products and attention of prompts, and PyTorch's of the same shapes, in turn on one GPU.

usage: benchmarks/beside_torch.py BUILD_DIR [--rounds 3]

BUILD_DIR has `gemm_benchmark` and `gpu_planned_attention_test` in bin/. Products are those of Llama-3.1-8B with 2,048
tokens, with what finishes them (ours adds to a residual, or multiplies gate and up), beside torch.matmul, that is cuBLAS;
attention is causal, of 32 heads of 128 channels and 8 KV heads, beside the fastest backend of scaled_dot_product_attention.
Prints a line for each shape: medians over the rounds in TFLOP/s, and ours divided by PyTorch's.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess

TOKENS = 2048
PROMPTS = [2048, 8192, 32768]
Q_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
TERA = 1e12


def products_of(text):
    """Parses gemm_benchmark's lines: {(outputs, cols): TFLOP/s}."""
    found = re.findall(r"(\d+) x +(\d+) x \d+: +[\d.]+ us, +(\d+) TFLOP/s", text)
    return {(int(outputs), int(cols)): float(tflops) for outputs, cols, tflops in found}


def prompts_of(text):
    """Parses the lines of SpeedOfPrompts: {tokens: TFLOP/s}."""
    found = re.findall(r"prompt of (\d+) in chunks of \d+: \d+ us, (\d+) TFLOP/s", text)
    return {int(tokens): float(tflops) for tokens, tflops in found}


def run(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"beside_torch: {command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Torch:
    """PyTorch's times."""

    def __init__(self):
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            raise SystemExit("beside_torch: PyTorch finds no GPU")
        torch.manual_seed(1)

    def random(self, *shape):
        return self.torch.randn(*shape, dtype=self.torch.bfloat16, device="cuda")

    def seconds(self, action, repetitions=10):
        """The median of several times of `action`, which is called `repetitions` times for each."""
        times = []
        for _ in range(7):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(repetitions):
                action()
            end.record()
            self.torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3 / repetitions)
        return statistics.median(times[1:])

    def product(self, outputs, cols):
        x, weights = self.random(TOKENS, cols), self.random(outputs, cols)
        return 2 * TOKENS * outputs * cols / self.seconds(lambda: self.torch.matmul(x, weights.T)) / TERA

    def attention(self, tokens):
        q = self.random(1, Q_HEADS, tokens, HEAD_DIM)
        k, v = (self.random(1, KV_HEADS, tokens, HEAD_DIM) for _ in range(2))
        operations = 2 * tokens * tokens * Q_HEADS * HEAD_DIM  # of the half that causal attention has
        return operations / min(self.attention_seconds(q, k, v)) / TERA

    def attention_seconds(self, q, k, v):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attend = self.torch.nn.functional.scaled_dot_product_attention
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            try:
                with sdpa_kernel(backend):
                    yield self.seconds(lambda: attend(q, k, v, is_causal=True, enable_gqa=True), 3)
            except RuntimeError:  # this version has no such kernel
                continue


def table(title, shapes, ours, torch):
    print(f"{title:<28}{'ours':>10}{'PyTorch':>10}{'ratio':>8}")
    ratios = []
    for shape in shapes:
        mine, other = (statistics.median(figures[shape] for figures in rounds) for rounds in (ours, torch))
        ratios.append(mine / other)
        name = " x ".join(str(n) for n in shape) if isinstance(shape, tuple) else str(shape)
        print(f"{name:<28}{mine:>10.0f}{other:>10.0f}{ratios[-1]:>8.2f}")
    print(f"{'mean':<48}{statistics.mean(ratios):>8.2f}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch = Torch()
    print(f"{torch.torch.cuda.get_device_name()}, PyTorch {torch.torch.__version__}, TFLOP/s\n")
    products, prompts = ([], []), ([], [])
    for _ in range(arguments.rounds):
        products[0].append(products_of(run(arguments.build / "bin" / "gemm_benchmark")))
        products[1].append({shape: torch.product(*shape) for shape in products[0][0]})
        attention = run(
            arguments.build / "bin" / "gpu_planned_attention_test", "--gtest_filter=*SpeedOfPrompts", SERVAL_BENCHMARK="1"
        )
        prompts[0].append(prompts_of(attention))
        prompts[1].append({tokens: torch.attention(tokens) for tokens in PROMPTS})
    table(f"outputs x columns, {TOKENS} tokens", products[0][0], *products)
    table("attention, tokens", PROMPTS, *prompts)


if __name__ == "__main__":
    main()
