"""Linear attention and Mamba-2 in Triton, in the same chunked forms as kernels/: what beside_triton.py compares with.

Tensors are contiguous: q, k [sequences, tokens, 16], v, x and the results [sequences, tokens, 64] in bf16 (for Hedgehog all of
them 128 wide), where a sequence is a head of a batch entry; q_map, k_map [heads, 128, 64]; c, b [batch, tokens, state] in bf16,
shared by all heads of a batch entry; log_decay [sequences, tokens] in fp32. Tokens are a multiple of the chunk.
"""

import torch
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def based_kernel(q, k, v, out, tokens, CHUNK: tl.constexpr, VALUES: tl.constexpr):
    """A sequence and VALUES of its 64 values; the state stays in registers."""
    sequence = tl.program_id(1).to(tl.int64)
    time, dim = tl.arange(0, CHUNK), tl.arange(0, 16)
    value = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    q += sequence * tokens * 16
    k += sequence * tokens * 16
    v += sequence * tokens * 64
    out += sequence * tokens * 64
    causal = time[:, None] >= time[None, :]
    constant = tl.zeros([VALUES], tl.float32)
    linear = tl.zeros([16, VALUES], tl.float32)
    square = tl.zeros([256, VALUES], tl.float32)
    for start in range(0, tokens, CHUNK):
        queries = tl.load(q + (start + time)[:, None] * 16 + dim[None, :])
        queries = (queries * 0.25).to(tl.bfloat16)
        keys = tl.load(k + (start + time)[None, :] * 16 + dim[:, None])
        values = tl.load(v + (start + time)[:, None] * 64 + value[None, :])
        score = tl.dot(queries, keys)
        weight = tl.where(causal, 1 + score + 0.5 * score * score, 0)
        result = tl.dot(weight.to(tl.bfloat16), values)
        squares = tl.reshape(queries[:, :, None] * queries[:, None, :], (CHUNK, 256))
        result += 0.5 * tl.dot(squares, square.to(tl.bfloat16))
        result += tl.dot(queries, linear.to(tl.bfloat16)) + constant[None, :]
        tl.store(out + (start + time)[:, None] * 64 + value[None, :], result.to(tl.bfloat16))
        squares = tl.reshape(keys[:, None, :] * keys[None, :, :], (256, CHUNK))
        square += tl.dot(squares, values)
        linear += tl.dot(keys, values)
        constant += tl.sum(values.to(tl.float32), 0)


@triton.jit
def softmax_features(x, feature_map, CHUNK: tl.constexpr):
    """softmax(x map) and softmax(-x map), their columns in turn: products of features do not depend on the order."""
    mapped = tl.dot(x, feature_map)
    positive = tl.exp2((mapped - tl.max(mapped, 1)[:, None]) * LOG2E)
    negative = tl.exp2((tl.min(mapped, 1)[:, None] - mapped) * LOG2E)
    positive /= tl.sum(positive, 1)[:, None]
    negative /= tl.sum(negative, 1)[:, None]
    return tl.reshape(tl.join(positive, negative), (CHUNK, 128)).to(tl.bfloat16)


@triton.jit
def hedgehog_kernel(q, k, v, q_map, k_map, out, tokens, heads, CHUNK: tl.constexpr, VALUES: tl.constexpr):
    """A sequence and VALUES of its 128 values; the state stays in registers."""
    sequence = tl.program_id(1).to(tl.int64)
    time, dim, half = tl.arange(0, CHUNK), tl.arange(0, 128), tl.arange(0, 64)
    value = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    q += sequence * tokens * 128
    k += sequence * tokens * 128
    v += sequence * tokens * 128
    out += sequence * tokens * 128
    in_map = sequence % heads * 128 * 64 + dim[:, None] * 64 + half[None, :]
    of_queries, of_keys = tl.load(q_map + in_map), tl.load(k_map + in_map)
    causal = time[:, None] >= time[None, :]
    state = tl.zeros([128, VALUES], tl.float32)
    features = tl.zeros([128], tl.float32)
    for start in range(0, tokens, CHUNK):
        at = (start + time)[:, None] * 128
        queries = softmax_features(tl.load(q + at + dim[None, :]), of_queries, CHUNK)
        keys = softmax_features(tl.load(k + at + dim[None, :]), of_keys, CHUNK)
        values = tl.load(v + at + value[None, :])
        weight = tl.where(causal, tl.dot(queries, tl.trans(keys)), 0)
        result = tl.dot(weight.to(tl.bfloat16), values) + tl.dot(queries, state.to(tl.bfloat16))
        total = tl.sum(weight, 1) + tl.sum(queries.to(tl.float32) * features[None, :], 1)
        tl.store(out + at + value[None, :], (result / total[:, None]).to(tl.bfloat16))
        state += tl.dot(tl.trans(keys), values)
        features += tl.sum(keys.to(tl.float32), 0)


@triton.jit
def mamba2_kernel(c, b, x, log_decay, y, tokens, heads, STATE: tl.constexpr, CHUNK: tl.constexpr, VALUES: tl.constexpr):
    """A sequence and VALUES of its 64 values, one chunk after another; the state stays in registers."""
    sequence = tl.program_id(1).to(tl.int64)
    time, dim = tl.arange(0, CHUNK), tl.arange(0, STATE)
    value = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    c += sequence // heads * tokens * STATE
    b += sequence // heads * tokens * STATE
    x += sequence * tokens * 64
    y += sequence * tokens * 64
    log_decay += sequence * tokens
    causal = time[:, None] >= time[None, :]
    state = tl.zeros([STATE, VALUES], tl.float32)
    for start in range(0, tokens, CHUNK):
        queries = tl.load(c + (start + time)[:, None] * STATE + dim[None, :])
        keys = tl.load(b + (start + time)[None, :] * STATE + dim[:, None])
        values = tl.load(x + (start + time)[:, None] * 64 + value[None, :])
        decay = tl.load(log_decay + start + time) * LOG2E
        total = tl.cumsum(decay, 0)
        last = tl.sum(decay, 0)
        score = tl.dot(queries, keys)
        weight = tl.where(causal, score * tl.exp2(total[:, None] - total[None, :]), 0)
        result = tl.dot(queries, state.to(tl.bfloat16)) * tl.exp2(total)[:, None]
        result += tl.dot(weight.to(tl.bfloat16), values)
        tl.store(y + (start + time)[:, None] * 64 + value[None, :], result.to(tl.bfloat16))
        keys = (keys * tl.exp2(last - total)[None, :]).to(tl.bfloat16)
        state = state * tl.exp2(last) + tl.dot(keys, values)


@triton.jit
def mamba2_states_kernel(b, x, log_decay, states, tokens, heads, STATE: tl.constexpr, CHUNK: tl.constexpr):
    """What each chunk adds to the state: states [sequences, chunks, STATE, 64] in fp32."""
    sequence = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * CHUNK
    time, dim, value = tl.arange(0, CHUNK), tl.arange(0, STATE), tl.arange(0, 64)
    keys = tl.load(b + (sequence // heads * tokens + start + time)[None, :] * STATE + dim[:, None])
    values = tl.load(x + (sequence * tokens + start + time)[:, None] * 64 + value[None, :])
    decay = tl.load(log_decay + sequence * tokens + start + time) * LOG2E
    keys = (keys * tl.exp2(tl.sum(decay, 0) - tl.cumsum(decay, 0))[None, :]).to(tl.bfloat16)
    states += (sequence * (tokens // CHUNK) + tl.program_id(0)) * STATE * 64
    tl.store(states + dim[:, None] * 64 + value[None, :], tl.dot(keys, values))


@triton.jit
def mamba2_pass_kernel(states, log_decay, before, tokens, STATE: tl.constexpr, CHUNK: tl.constexpr):
    """The state before each chunk, in bf16, from what each chunk adds."""
    sequence = tl.program_id(1).to(tl.int64)
    time = tl.arange(0, CHUNK)
    element = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    states += sequence * (tokens // CHUNK) * STATE * 64 + element
    before += sequence * (tokens // CHUNK) * STATE * 64 + element
    state = tl.zeros([1024], tl.float32)
    for chunk in range(0, tokens // CHUNK):
        tl.store(before, state.to(tl.bfloat16))
        last = tl.sum(tl.load(log_decay + sequence * tokens + chunk * CHUNK + time), 0) * LOG2E
        state = state * tl.exp2(last) + tl.load(states)
        states += STATE * 64
        before += STATE * 64


@triton.jit
def mamba2_scan_kernel(c, b, x, log_decay, before, y, tokens, heads, STATE: tl.constexpr, CHUNK: tl.constexpr):
    """The outputs of a chunk from the state before it."""
    sequence = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * CHUNK
    time, dim, value = tl.arange(0, CHUNK), tl.arange(0, STATE), tl.arange(0, 64)
    row = sequence // heads * tokens + start + time
    queries = tl.load(c + row[:, None] * STATE + dim[None, :])
    keys = tl.load(b + row[None, :] * STATE + dim[:, None])
    values = tl.load(x + (sequence * tokens + start + time)[:, None] * 64 + value[None, :])
    total = tl.cumsum(tl.load(log_decay + sequence * tokens + start + time) * LOG2E, 0)
    before += (sequence * (tokens // CHUNK) + tl.program_id(0)) * STATE * 64
    state = tl.load(before + dim[:, None] * 64 + value[None, :])
    score = tl.dot(queries, keys)
    weight = tl.where(time[:, None] >= time[None, :], score * tl.exp2(total[:, None] - total[None, :]), 0)
    result = tl.dot(queries, state) * tl.exp2(total)[:, None]
    result += tl.dot(weight.to(tl.bfloat16), values)
    tl.store(y + (sequence * tokens + start + time)[:, None] * 64 + value[None, :], result.to(tl.bfloat16))


# Each version: (name, function of the tensors that begins it).


def based_versions():
    def version(chunk, values, warps):
        def begin(q, k, v, out):
            sequences, tokens = q.shape[0], q.shape[1]
            based_kernel[(64 // values, sequences)](q, k, v, out, tokens, CHUNK=chunk, VALUES=values, num_warps=warps)

        return f"Triton, chunk {chunk}, {values} values, {warps} warps", begin

    return [version(16, 32, 4), version(32, 32, 4), version(32, 64, 8), version(64, 32, 4), version(64, 64, 8)]


def hedgehog_versions():
    def version(chunk, values, warps):
        def begin(q, k, v, q_map, k_map, out):
            sequences, tokens, heads = q.shape[0], q.shape[1], q_map.shape[0]
            hedgehog_kernel[(128 // values, sequences)](
                q, k, v, q_map, k_map, out, tokens, heads, CHUNK=chunk, VALUES=values, num_warps=warps, num_stages=2
            )

        return f"Triton, chunk {chunk}, {values} values, {warps} warps", begin

    return [version(32, 64, 4), version(64, 64, 4), version(64, 64, 8), version(64, 128, 8)]


def mamba2_versions():
    def one_kernel(chunk, values, warps):
        def begin(c, b, x, log_decay, y):
            sequences, tokens = x.shape[0], x.shape[1]
            mamba2_kernel[(64 // values, sequences)](
                c, b, x, log_decay, y, tokens, sequences // c.shape[0], c.shape[2], CHUNK=chunk, VALUES=values, num_warps=warps
            )

        return f"Triton, one kernel, chunk {chunk}, {values} values, {warps} warps", begin

    def three_kernels(chunk, warps):
        memory = {}

        def begin(c, b, x, log_decay, y):
            sequences, tokens, state = x.shape[0], x.shape[1], c.shape[2]
            chunks, heads = tokens // chunk, sequences // c.shape[0]
            if memory.get("shape") != (x.shape, state):
                shape = (sequences, chunks, state, 64)
                memory["shape"] = (x.shape, state)
                memory["states"] = torch.empty(shape, dtype=torch.float32, device="cuda")
                memory["before"] = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
            states, before, grid = memory["states"], memory["before"], (chunks, sequences)
            mamba2_states_kernel[grid](b, x, log_decay, states, tokens, heads, state, CHUNK=chunk, num_warps=warps)
            mamba2_pass_kernel[(state * 64 // 1024, sequences)](states, log_decay, before, tokens, state, CHUNK=chunk)
            mamba2_scan_kernel[grid](c, b, x, log_decay, before, y, tokens, heads, state, CHUNK=chunk, num_warps=warps)

        return f"Triton, three kernels, chunk {chunk}, {warps} warps", begin

    return [one_kernel(64, 64, 4), one_kernel(64, 32, 4), one_kernel(128, 64, 8), three_kernels(64, 4), three_kernels(128, 8)]
