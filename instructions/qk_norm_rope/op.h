// Before attention, in models with norms of Q and K: RMS norm of each head of Q and K with its own weights,
// then RoPE; K and V are appended to the cache.
//
// A head's squares are always added in the same order: first those of its RoPE pairs i and i + head_dim / 2,
// then neighbouring pairs as a tree.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/new_tokens.h"
#include "instructions/common/qkv_heads.h"

namespace serval {

struct QkNormRope {
  TensorId projected;
  TensorId q_norm;
  TensorId k_norm;
  TensorId rope;
  TensorId rows;
  TensorId block_table;
  TensorId q;
  TensorId k_cache;
  TensorId v_cache;
  uint32_t first_head;
  uint32_t num_heads;
  float epsilon;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr KernelSet kKernels = {.tile_order = false, .head_norms = true};

  static constexpr std::array kWindows = {&QkNormRope::first_head, &QkNormRope::num_heads,
                                          &QkNormRope::first_row, &QkNormRope::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QkNormRope::projected, "projected", "in [max_rows, (q_heads + 2 * kv_heads) * head_dim] f32");
    v(&QkNormRope::q_norm, "q_norm", "in [1, head_dim] bf16: of every head of Q");
    v(&QkNormRope::k_norm, "k_norm", "in [1, head_dim] bf16: of every head of K");
    v(&QkNormRope::rope, "rope", "in [max_context, head_dim] f32: cosines, then sines");
    v(&QkNormRope::rows, "rows", "in: the pass's rows");
    v(&QkNormRope::block_table, "block_table", "in [max_sequences, blocks of a sequence] i32");
    v(&QkNormRope::q, "q", "out [max_rows, q_heads * head_dim] bf16");
    v(&QkNormRope::k_cache, "k_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&QkNormRope::v_cache, "v_cache", "out [kv_heads * head_dim, kv_blocks * 64] bf16");
    v(&QkNormRope::first_head, "first_head", "heads: of Q, then of K, then of V");
    v(&QkNormRope::num_heads, "num_heads", "heads");
    v(&QkNormRope::epsilon, "epsilon", "of the RMS norm of a head");
    v(&QkNormRope::first_row, "first_row", "rows of the pass");
    v(&QkNormRope::num_rows, "num_rows", "rows of the pass");
  }
};

enum class HeadPart : uint8_t { kQ, kK, kV };

// Part, and index in the part, of one of the q_heads + 2 × kv_heads heads.
struct ProjectedHead {
  HeadPart part;
  uint32_t index;
};
constexpr ProjectedHead projected_head(const HeadShape& heads, uint32_t head) {
  if (head < heads.q_heads) return {HeadPart::kQ, head};
  if (head < heads.q_heads + heads.kv_heads) return {HeadPart::kK, head - heads.q_heads};
  return {HeadPart::kV, head - heads.q_heads - heads.kv_heads};
}
constexpr uint32_t projected_heads(const HeadShape& heads) {
  return heads.q_heads + 2 * heads.kv_heads;
}

inline void footprint(const QkNormRope& op, const StateView* state, FootprintBuilder<QkNormRope>& f) {
  const HeadShape& heads = f.shape().heads;
  const StateLimits& limits = f.shape().limits;
  const uint32_t end_head = op.first_head + op.num_heads;
  const uint64_t d = heads.head_dim;
  f.read_rows<&QkNormRope::projected>(RowSet::kActive, op.first_head * d, end_head * d);
  f.read<&QkNormRope::q_norm>({0, 1, 0, d});
  f.read<&QkNormRope::k_norm>({0, 1, 0, d});
  f.read<&QkNormRope::rope>({0, limits.max_context, 0, d});
  f.pass_rows<&QkNormRope::rows>();
  f.read<&QkNormRope::block_table>({0, limits.sequences, 0, blocks_for_tokens(limits.max_context)});
  // Calls write(begin, end) for the channels of the instance's heads in a part of `count` heads, which
  // follows `before` heads of other parts.
  const auto heads_of = [&](uint32_t before, uint32_t count, auto&& write) {
    const uint32_t begin = op.first_head > before ? op.first_head - before : 0;
    const uint32_t end = end_head > before ? end_head - before : 0;
    if (begin < count && begin < end) write(begin * d, (end < count ? end : count) * d);
  };
  heads_of(0, heads.q_heads,
           [&](uint64_t begin, uint64_t end) { f.write_rows<&QkNormRope::q>(RowSet::kActive, begin, end); });
  heads_of(heads.q_heads, heads.kv_heads, [&](uint64_t begin, uint64_t end) {
    write_new_tokens<&QkNormRope::k_cache>(op, state, f, begin, end);
  });
  heads_of(heads.q_heads + heads.kv_heads, heads.kv_heads, [&](uint64_t begin, uint64_t end) {
    write_new_tokens<&QkNormRope::v_cache>(op, state, f, begin, end);
  });
}

inline Cost cost(const QkNormRope& op, const CostView& c) {
  const HeadShape& heads = c.shape.heads;
  const uint64_t values = c.rows(op.first_row, op.num_rows) * op.num_heads * heads.head_dim;
  return {.cached_bytes = values * (c.element_bytes(op.projected) + c.element_bytes(op.q)),
          .operations = 6 * values};
}

inline PageNeed pages(const QkNormRope&) {
  return {.pinned = 0, .streaming = 0};  // a head is a few numbers a lane
}

inline void check(const QkNormRope& op, OperandCheck& c) {
  const HeadShape& heads = c.shape().heads;
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.factor("epsilon", op.epsilon);
  c.heads();
  if (!c.ok()) return;
  c.range("first_head", op.first_head, op.num_heads, projected_heads(heads));
  c.activation("projected", op.projected, DType::kF32, qkv_cols(heads));
  c.tensor("q_norm", op.q_norm, DType::kBF16, TensorKind::kWeight, 1, heads.head_dim);
  c.tensor("k_norm", op.k_norm, DType::kBF16, TensorKind::kWeight, 1, heads.head_dim);
  check_rotated_heads(op, c);
}

}  // namespace serval
