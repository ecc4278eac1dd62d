"""Times the attention of kernels/ beside PyTorch's with the cuDNN backend, in turn, and compares the results.

usage: attention_beside_cudnn.py LIBRARY [LENGTH]...   lengths: 4096 8192 16384 if none is given
"""

import ctypes
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS = 16384  # of all sequences
CHANNELS = 2048  # of all heads
ROUNDS, TIMED_MS, LEAD_IN_MS = 7, 60, 60


def ours(library, q, k, v, out, causal):
    batch, heads, length, head_dim = q.shape
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (q, k, v, out)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    if library.serval_attention(*pointers, ctypes.c_float(head_dim**-0.5), batch, heads, k.shape[1], length,
                                head_dim, int(causal), stream):
        sys.exit("the library refused the shape")


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def milliseconds(work, times):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


def in_turn(works):
    """The median milliseconds of each; each runs for a while before it is timed, so that its own power sets the clocks."""
    once = []
    for work in works:
        milliseconds(work, 3)
        once.append(milliseconds(work, 3))
    times = [[] for _ in works]
    for turn in range(ROUNDS):
        order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
        for i in order:
            for _ in range(int(LEAD_IN_MS / once[i]) + 1):
                works[i]()
            times[i].append(milliseconds(works[i], int(TIMED_MS / once[i]) + 1))
    return [statistics.median(of_work) for of_work in times]


def compare(library, length, head_dim, causal):
    batch, heads = TOKENS // length, CHANNELS // head_dim
    q, k, v = (torch.randn(batch, heads, length, head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out = torch.full_like(q, float("nan"))
    want = cudnn(q, k, v, causal).float()
    works = [lambda: cudnn(q, k, v, causal), lambda: ours(library, q, k, v, out, causal)]
    works[1]()
    difference = (out.float() - want).abs().max().item()
    operations = 4 * batch * heads * length * length * head_dim / (2 if causal else 1)
    medians = in_turn(works)
    print(f"attention {length:6} x {heads} x {head_dim:3} {'causal' if causal else 'full':6}"
          f" {operations / medians[1] * 1e-9:7.1f} TFLOP/s, cuDNN {operations / medians[0] * 1e-9:7.1f},"
          f" ratio {medians[0] / medians[1]:.3f}, largest difference {difference:.4f}", flush=True)


def main():
    library = ctypes.CDLL(sys.argv[1])
    for length in [int(argument) for argument in sys.argv[2:]] or [4096, 8192, 16384]:
        for head_dim in (128, 64):
            for causal in (False, True):
                compare(library, length, head_dim, causal)


if __name__ == "__main__":
    main()
