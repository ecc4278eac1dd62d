"""Times the attention of kernels/ beside PyTorch's with the cuDNN backend, in turn, and compares the results.

usage: attention_beside_cudnn.py LIBRARY [forward] [backward] [LENGTH]...
both directions and lengths 4096, 8192 and 16384 if none is given
"""

import ctypes
import sys

import torch
from in_turn import in_turn
from torch.nn.attention import SDPBackend, sdpa_kernel

DIRECTIONS = ("forward", "backward")
LENGTHS = (4096, 8192, 16384)
TOKENS = 16384  # of all sequences
CHANNELS = 2048  # of all heads
ROUNDS, TIMED_MS, LEAD_IN_MS = 7, 60, 60


class Shape(ctypes.Structure):
    """AttentionShape of kernels/attention.h."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("batch", "heads", "kv_heads", "length", "head_dim")] + [
        ("causal", ctypes.c_bool)
    ]


class Ours:
    """Both directions of attention by the library, on tensors that it keeps."""

    def __init__(self, library, q, k, v, d_out, causal):
        batch, heads, length, head_dim = q.shape
        self.library, self.scale = library, ctypes.c_float(head_dim**-0.5)
        self.shape = ctypes.byref(Shape(batch, heads, k.shape[1], length, head_dim, causal))
        self.out, self.gradients = empty_like(q), [empty_like(of) for of in (q, k, v)]
        self.log_sums = torch.empty(batch * heads * length, device="cuda")
        self.scratch = torch.empty(library.serval_attention_backward_scratch(self.shape), device="cuda")
        self.inputs = (q, k, v)
        # AttentionGradients
        pointers = [of.data_ptr() for of in (q, k, v, self.out, d_out, self.log_sums, *self.gradients)]
        self.arguments = (ctypes.c_void_p * len(pointers))(*pointers)

    def forward(self):
        tensors = (*self.inputs, self.out, self.log_sums)
        self.call(self.library.serval_attention, *(ctypes.c_void_p(of.data_ptr()) for of in tensors))

    def backward(self):
        scratch = ctypes.c_void_p(self.scratch.data_ptr())
        self.call(self.library.serval_attention_backward, ctypes.byref(self.arguments), scratch)

    def call(self, function, *arguments):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if function(*arguments, self.scale, self.shape, stream):
            sys.exit("the library refused the shape")


def empty_like(tensor):
    return torch.full_like(tensor, float("nan"))


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def difference(got, want):
    """The largest, as a share of the root mean square."""
    return ((got.float() - want.float()).abs().max() / want.float().square().mean().sqrt()).item()


def compare(library, directions, length, head_dim, causal):
    batch, heads = TOKENS // length, CHANNELS // head_dim
    shape = (batch, heads, length, head_dim)
    q, k, v, d_out = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    ours = Ours(library, q, k, v, d_out, causal)
    ours.forward()
    ours.backward()
    for of in (q, k, v):
        of.requires_grad_()
    out = cudnn(q, k, v, causal)
    gradients = torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True)
    differences = {
        "forward": difference(ours.out, out.detach()),
        "backward": max(difference(*pair) for pair in zip(ours.gradients, gradients)),
    }

    def cudnn_forward():
        with torch.no_grad():
            cudnn(q, k, v, causal)

    works = {
        "forward": (cudnn_forward, ours.forward),
        "backward": (lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True), ours.backward),
    }
    for direction in directions:
        operations = (4 if direction == "forward" else 10) * batch * heads * length**2 * head_dim / (2 if causal else 1)
        theirs, own = in_turn(works[direction], ROUNDS, TIMED_MS, LEAD_IN_MS)
        print(f"{direction} {length} x {heads} x {head_dim} {'causal' if causal else 'full'}:"
              f" {operations / own * 1e-9:.1f} TFLOP/s, cuDNN {operations / theirs * 1e-9:.1f},"
              f" ratio {theirs / own:.3f}, largest difference {differences[direction]:.4f}", flush=True)


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.serval_attention_backward_scratch.restype = ctypes.c_size_t
    directions = [argument for argument in sys.argv[2:] if argument in DIRECTIONS] or DIRECTIONS
    lengths = [int(argument) for argument in sys.argv[2:] if argument not in DIRECTIONS] or LENGTHS
    for length in lengths:
        for head_dim in (128, 64):
            for causal in (False, True):
                compare(library, directions, length, head_dim, causal)


if __name__ == "__main__":
    main()
