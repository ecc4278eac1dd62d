#!/usr/bin/env python3
"""Times kernels of kernels/ beside versions in Triton, or torch.fft, in turn on one GPU. Compares results first.

usage: benchmarks/kernels/beside_triton.py LIBRARY [NAME]...

LIBRARY is libserval_kernels_python.so. Names: based, hedgehog, mamba2, fft; all of them if none is given. Prints for each
candidate: the median time, the share of a copy's bandwidth that the arrays' bytes have, its largest difference from the formula
in fp32 as a share of the results' root mean square (of two sequences), and the ratio of the fastest reference to it.
"""

import argparse
import ctypes

import torch
from in_turn import in_turn

ROUNDS, TIMED_MS = 7, 20
REFUSED = 0.1  # a difference that is no rounding
COMPARED = 2  # sequences


class Library:
    """The C functions of for_python.cc, with tensors as arguments."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)

    def begin(self, name, tensors, numbers):
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = getattr(self.functions, name)(*pointers, *map(ctypes.c_uint32, numbers), stream)
        if code != 0:
            raise SystemExit(f"beside_triton: {name} ended with {code}")


def difference(got, wanted):
    got, wanted = got.float(), wanted.float()
    if not torch.isfinite(got).all():
        return float("inf")
    return ((got - wanted).abs().max() / wanted.square().mean().sqrt()).item()


def compare(title, ours, references, moved, wanted):
    """`ours` and `references`: (name, function, result as the references lay it out). `moved`: bytes of all arrays.
    `wanted`: the first sequences' results in fp32."""
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    candidates = [*ours, *references]
    works = [work for _, work, _ in candidates] + [lambda: target.copy_(source)]
    for work in works:
        work()
    torch.cuda.synchronize()
    differences = [difference(result()[: len(wanted)], wanted) for _, _, result in candidates]
    *ms, copy = in_turn(works, ROUNDS, TIMED_MS)
    best = min(ms[len(ours) :])
    for (name, _, _), time, share in zip(candidates, ms, differences):
        wrong = "  WRONG" if not share < REFUSED else ""
        print(
            f"{title:34} {name:48} {time * 1e3:9.1f} us, {copy / time:5.2f} of a copy, difference {share:.4f}, "
            f"{best / time:6.2f} x the reference{wrong}",
            flush=True,
        )


def random(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def by_head(tensor):
    """[batch, tokens, heads, dim] as contiguous [batch * heads, tokens, dim]."""
    return tensor.transpose(1, 2).flatten(0, 1).contiguous()


def causal(weights):
    return weights * torch.ones(weights.shape[-2:], device="cuda").tril()


def based_in_fp32(q, k, v):
    score = q.float() @ k.float().transpose(1, 2) / 4
    return causal(1 + score + score.square() / 2) @ v.float()


def hedgehog_in_fp32(q, k, v, q_map, k_map):
    def features(x, feature_map):
        mapped = x.float() @ feature_map[: len(x)].float()
        return torch.cat([mapped.softmax(-1), (-mapped).softmax(-1)], -1)

    weights = causal(features(q, q_map) @ features(k, k_map).transpose(1, 2))
    return weights @ v.float() / weights.sum(-1, keepdim=True)


def mamba2_in_fp32(c, b, x, log_decay):
    total = log_decay.double().cumsum(-1)
    decay = causal((total[:, :, None] - total[:, None, :]).clamp(max=0).exp().float())
    return (c[:1].float() @ b[:1].float().transpose(1, 2) * decay) @ x.float()


def time_based(library, batch, tokens, heads):
    import triton_versions

    q, k, v = random(batch, tokens, heads, 16), random(batch, tokens, heads, 16), random(batch, tokens, heads, 64)
    out = torch.empty_like(v)
    ours = [
        ("ours", lambda: library.begin("serval_based_attention", (q, k, v, out), (batch, tokens, heads)), lambda: by_head(out))
    ]
    of_heads = [by_head(tensor) for tensor in (q, k, v)]
    references = []
    for name, begin in triton_versions.based_versions():
        result = torch.empty_like(of_heads[2])
        references.append((name, lambda b=begin, r=result: b(*of_heads, r), lambda r=result: r))
    wanted = based_in_fp32(*(tensor[:COMPARED] for tensor in of_heads))
    compare(f"based {batch} x {tokens} x {heads}", ours, references, 2 * (2 * q.numel() + 2 * v.numel()), wanted)


def time_hedgehog(library, batch, tokens, heads):
    import triton_versions

    q, k, v = (random(batch, tokens, heads, 128) for _ in range(3))
    maps = [random(heads, 128, 64) / 8 for _ in range(2)]
    out = torch.empty_like(v)
    arguments = (q, k, v, *maps, out)
    ours = [
        ("ours", lambda: library.begin("serval_hedgehog_attention", arguments, (batch, tokens, heads)), lambda: by_head(out))
    ]
    of_heads = [by_head(tensor) for tensor in (q, k, v)]
    references = []
    for name, begin in triton_versions.hedgehog_versions():
        result = torch.empty_like(of_heads[2])
        references.append((name, lambda b=begin, r=result: b(*of_heads, *maps, r), lambda r=result: r))
    wanted = hedgehog_in_fp32(*(tensor[:COMPARED] for tensor in of_heads), *maps)
    compare(f"hedgehog {batch} x {tokens} x {heads}", ours, references, 2 * 4 * q.numel(), wanted)


def time_mamba2(library, batch, tokens, heads, state):
    import triton_versions

    c, b, x = random(batch, tokens, state), random(batch, tokens, state), random(batch, tokens, heads, 64)
    log_decay = -torch.rand(batch, heads, tokens, device="cuda") * 0.2
    y = torch.empty_like(x)
    sizes = (batch, tokens, heads, 1, state)
    ours = [("ours", lambda: library.begin("serval_mamba2", (c, b, x, log_decay, y), sizes), lambda: by_head(y))]
    x_of_heads, decay_of_heads = by_head(x), log_decay.flatten(0, 1)
    references = []
    for name, begin in triton_versions.mamba2_versions():
        result = torch.empty_like(x_of_heads)
        references.append(
            (name, lambda g=begin, r=result: g(c, b, x_of_heads, decay_of_heads, r), lambda r=result: r)
        )
    moved = 2 * (2 * c.numel() + 2 * x.numel()) + 4 * log_decay.numel()
    wanted = mamba2_in_fp32(c, b, x_of_heads[:COMPARED], decay_of_heads[:COMPARED])
    compare(f"mamba2 {batch} x {tokens} x {heads}, state {state}", ours, references, moved, wanted)


def time_fft(library, batch, heads, length):
    x, y = random(batch, heads, length), torch.empty(batch, heads, length, dtype=torch.bfloat16, device="cuda")
    weights = torch.randn(heads, length, device="cuda") / length**0.5
    spectrum = torch.fft.rfft(weights).contiguous()
    packed = torch.empty(heads, 4096, dtype=torch.int32, device="cuda")
    library.begin("serval_pack_filter", (torch.view_as_real(spectrum), packed), (heads, length))
    x_fp32, results = x.float(), {}

    def from_fp32():
        results["fp32"] = torch.fft.irfft(torch.fft.rfft(x_fp32) * spectrum, n=length)

    def from_bf16():
        results["bf16"] = torch.fft.irfft(torch.fft.rfft(x.float()) * spectrum, n=length).bfloat16()

    sizes = (batch, heads, length)
    ours = [("ours", lambda: library.begin("serval_fft_convolution", (x, packed, y), sizes), lambda: y)]
    references = [
        ("torch.fft, x and y in fp32", from_fp32, lambda: results["fp32"]),
        ("torch.fft, x and y in bf16", from_bf16, lambda: results["bf16"]),
    ]
    wanted = torch.fft.irfft(torch.fft.rfft(x_fp32[:COMPARED]) * spectrum, n=length)
    compare(f"fft {batch} x {heads} x {length}", ours, references, 4 * x.numel() + 4 * packed.numel(), wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("names", nargs="*", choices=["based", "hedgehog", "mamba2", "fft", []], default=[])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("beside_triton: PyTorch finds no GPU")
    torch.manual_seed(1)
    library = Library(options.library)
    names = options.names or ["based", "hedgehog", "mamba2", "fft"]
    if "fft" in names:
        time_fft(library, 64, 768, 1024)
        time_fft(library, 64, 768, 4096)
        time_fft(library, 16, 768, 4096)
    if "mamba2" in names:
        time_mamba2(library, 16, 2048, 32, 64)
        time_mamba2(library, 16, 2048, 32, 128)
        time_mamba2(library, 4, 8192, 64, 128)
    if "based" in names:
        time_based(library, 64, 1024, 16)
        time_based(library, 16, 4096, 16)
        time_based(library, 4, 8192, 64)
    if "hedgehog" in names:
        time_hedgehog(library, 16, 2048, 16)
        time_hedgehog(library, 4, 8192, 32)


if __name__ == "__main__":
    main()
