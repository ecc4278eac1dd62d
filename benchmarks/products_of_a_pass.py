#!/usr/bin/env python3
"""Times cuBLAS with the products of a pass alone, going on for seconds, and samples what the GPU draws meanwhile.

usage: benchmarks/products_of_a_pass.py [--models 8b,1b] [--rows 16,64,256,2048] [--seconds 3]

A pass here is PyTorch's matrix products of Llama's layers and its LM head, one CUDA graph, each layer with weights of its
own: no attention, norms or sampling. What it takes is a floor for an engine on this GPU whose products are no better than
cuBLAS's and overlap with nothing else. The cached keys and values of the sequences come on top: `keys and values` are those of
256 tokens a row, at what the same GPU streams. Prints a line for each model and number of rows: µs a pass, then medians
of nvidia-smi's samples.
"""

import argparse
import statistics
import subprocess
import time

import torch

# hidden, layers, outputs of QKV, intermediate, vocabulary, values that a token adds to a layer's keys and values
MODELS = {
    "8b": (4096, 32, 6144, 14336, 128256, 2 * 8 * 128),
    "1b": (2048, 16, 3072, 8192, 128256, 2 * 8 * 64),
}
CONTEXT = 256
PROMPT_ROWS = 2048  # rows from here on are a prompt's: keys and values are not counted


def random(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda") / 64


class Pass:
    """The products of `rows` rows."""

    def __init__(self, model, rows):
        hidden, layers, qkv, intermediate, vocabulary, _ = MODELS[model]
        shapes = [(hidden, qkv), (hidden, hidden), (hidden, 2 * intermediate), (intermediate, hidden)]
        weights = [random(*shape) for _ in range(layers) for shape in shapes] + [random(hidden, vocabulary)]
        inputs = {cols: random(rows, cols) for cols in (hidden, intermediate)}
        outputs = {w.shape[1]: random(rows, w.shape[1]) for w in weights}

        def multiply():
            for w in weights:
                torch.mm(inputs[w.shape[0]], w, out=outputs[w.shape[1]])

        multiply()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            multiply()
        self.operations = sum(2 * rows * w.numel() for w in weights)
        self.bytes = sum(2 * w.numel() for w in weights)


def going_on(action, seconds):
    """Calls action() for so long; returns its mean in µs, and the medians of W and MHz."""
    query = ["nvidia-smi", "--query-gpu=power.draw.instant,clocks.sm", "--format=csv,noheader,nounits", "-lms", "100"]
    for _ in range(3):
        action()
    torch.cuda.synchronize()
    begin = time.monotonic()
    calls = 0
    sampler = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    while time.monotonic() - begin < seconds:
        for _ in range(20):
            action()
        torch.cuda.synchronize()
        calls += 20
    took = time.monotonic() - begin
    sampler.terminate()
    samples = [tuple(map(float, line.split(","))) for line in sampler.communicate()[0].splitlines()]
    samples = samples[len(samples) // 3 :]  # power follows the load after a while
    watts, clock = (statistics.median(column) for column in zip(*samples))
    return took / calls * 1e6, watts, clock


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="8b,1b")
    parser.add_argument("--rows", default="16,64,256,2048")
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)

    cache = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda").view(torch.int64)
    total = torch.empty((), dtype=torch.int64, device="cuda")
    us, watts, clock = going_on(lambda: torch.sum(cache, 0, out=total), arguments.seconds)
    stream = cache.nbytes / us * 1e6
    print(f"memory alone: {stream / 1e9:.0f} GB/s, {watts:.0f} W, {clock:.0f} MHz")
    del cache

    print("model  rows  products, µs  TFLOP/s  GB/s    W   MHz  keys and values, µs  together, µs")
    for model in arguments.models.split(","):
        for rows in map(int, arguments.rows.split(",")):
            products = Pass(model, rows)
            us, watts, clock = going_on(products.graph.replay, arguments.seconds)
            _, layers, *_, values = MODELS[model]
            kv = 0 if rows >= PROMPT_ROWS else 2.0 * layers * values * CONTEXT * rows / stream * 1e6
            print(
                f"{model:5} {rows:5} {us:13.0f} {products.operations / us / 1e6:8.0f} {products.bytes / us / 1e3:5.0f}"
                f" {watts:4.0f} {clock:5.0f} {kv:20.0f} {us + kv:13.0f}",
                flush=True,
            )
            del products
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
