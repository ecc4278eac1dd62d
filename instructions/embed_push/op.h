// Token embedding where ranks divide the table by its rows: partial[r, j] = table[token(r), j] if this rank
// has the token, else 0, pushed to the owners of the columns' slices (common/slices.h). They add up what the
// ranks have pushed (instructions/reduce_residual). One rank pushes the value and the others zeros, so the
// sum is exact except for the sign of zero: -0 becomes +0.
//
// A rank without the token also pushes zeros, so that all partial sums are written in every pass.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "instructions/common/slices.h"
#include "vm/layout/units.h"

namespace serval {

struct EmbedPush {
  TensorId table;
  TensorId rows;
  PeerTensors partial;
  uint32_t first_unit;
  uint32_t num_units;
  uint32_t out_cols;
  uint32_t vocab;
  uint32_t first_token;
  uint32_t num_tokens;
  uint32_t rank;
  uint32_t ranks;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr KernelSet kKernels = {.one_device = false};

  static constexpr std::array kWindows = {
      &EmbedPush::first_unit, &EmbedPush::num_units, &EmbedPush::first_token, &EmbedPush::num_tokens,
      &EmbedPush::rank,       &EmbedPush::first_row, &EmbedPush::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&EmbedPush::table, "table", "in [tokens, out_cols] bf16: of first_token, and its rank's next ones");
    v(&EmbedPush::rows, "rows", "in: the pass's rows");
    v(&EmbedPush::partial, "partial",
      "out, on each rank: [max_rows, out_cols] f32, or bf16 in the order of tiles, a slice from each rank");
    v(&EmbedPush::first_unit, "first_unit", "units of 8 columns");
    v(&EmbedPush::num_units, "num_units", "units of 8 columns");
    v(&EmbedPush::out_cols, "out_cols", "columns");
    v(&EmbedPush::vocab, "vocab", "tokens");
    v(&EmbedPush::first_token, "first_token", "tokens: the first that no other rank looks up");
    v(&EmbedPush::num_tokens, "num_tokens", "tokens: 0 where there are fewer units of them than ranks");
    v(&EmbedPush::rank, "rank", "rank that looks up");
    v(&EmbedPush::ranks, "ranks", "ranks");
    v(&EmbedPush::first_row, "first_row", "rows of the pass");
    v(&EmbedPush::num_rows, "num_rows", "rows of the pass");
  }
};

inline void footprint(const EmbedPush& op, const StateView*, FootprintBuilder<EmbedPush>& f) {
  const uint64_t begin = uint64_t{op.first_unit} * kUnitRows;
  const uint64_t end = begin + uint64_t{op.num_units} * kUnitRows;
  f.read<&EmbedPush::table>({0, op.num_tokens, begin, end});
  f.pass_rows<&EmbedPush::rows>();
  for_slices(slices_of(op), begin, end, [&](const SlicePart& part) {
    f.push_rows<&EmbedPush::partial>(part.owner, RowSet::kActive, part.partial_col,
                                     part.partial_col + part.cols);
  });
}

// Each rank looks up its share of a pass's tokens.
inline Cost cost(const EmbedPush& op, const CostView& c) {
  const uint64_t values = c.rows(op.first_row, op.num_rows) * op.num_units * kUnitRows;
  return {.bytes = values * c.element_bytes(op.table) / op.ranks,
          .pushed_bytes = of_other_slices(values * c.element_bytes(op.partial.on(op.rank)), op.ranks)};
}

inline PageNeed pages(const EmbedPush&) {
  return {.pinned = 0, .streaming = 0};
}  // rows go straight from the table to the owners

inline void check(const EmbedPush& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.limit("vocab", op.vocab, &StateLimits::vocab);
  c.rank(op.rank, op.ranks);
  c.slices(op.out_cols, op.ranks);
  if (!c.ok()) return;
  const VocabularyShare share = vocabulary_share(op.vocab, op.rank, op.ranks);
  c.require(op.first_token == share.first && op.num_tokens == share.count, "first_token", op.first_token,
            "with num_tokens the rank's share");
  c.range("first_unit", op.first_unit, op.num_units, op.out_cols / kUnitRows);
  // A rank whose share is empty has rows all the same, because a tensor is never empty.
  const uint64_t tokens = op.num_tokens > 0 ? op.num_tokens : c.tensor_rows(op.table);
  c.tensor("table", op.table, DType::kBF16, TensorKind::kWeight, tokens, op.out_cols);
  c.peers("partial", op.partial, partial_sum_type(c.shape().order), op.out_cols);
  c.on_rank("table", op.table, op.rank);
}

}  // namespace serval
