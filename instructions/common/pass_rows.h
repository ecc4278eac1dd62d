// Rows of the pass that host handlers keep between their roles.
#pragma once

#include <vector>

#include "instructions/common/footprint.h"
#include "instructions/common/matvec.h"
#include "instructions/common/residual.h"
#include "vm/base/bf16.h"
#include "vm/host/memory.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/state/rows.h"

namespace serval {

// A copy of one row of the pass and its index, made by the load role.
struct SelectedRow {
  uint32_t index;  // row of the pass: row of the [max_rows, …] tensors
  PassRow row;
};

inline void select_rows(const HostMemory& m, TensorId rows, RowRange range, RowSet wanted,
                        std::vector<SelectedRow>& out) {
  const PassRow* table = m.data<const PassRow>(rows);
  out.clear();
  for (uint32_t r = range.begin; r < range.end; ++r) {
    if (contains(wanted, table[r])) out.push_back({r, table[r]});
  }
}
template <class Op>
void select_rows(const Op& op, const HostMemory& m, RowSet wanted, std::vector<SelectedRow>& out) {
  select_rows(m, op.rows, row_range(op, m.shape()), wanted, out);
}

// The KV block of each row's token.
template <class Op>
void blocks_of_rows(const Op& op, const HostMemory& m, const std::vector<SelectedRow>& rows,
                    std::vector<int32_t>& out) {
  const uint32_t blocks_per_sequence = blocks_for_tokens(m.shape().limits.max_context);
  out.clear();
  for (const SelectedRow& r : rows) {
    const int32_t* table = m.data<const int32_t>(op.block_table) + size_t{r.row.slot} * blocks_per_sequence;
    out.push_back(table[r.row.position / kKvBlockTokens]);
  }
}

// Columns [begin, begin + count) of the selected rows of a [max_rows, cols] tensor of bf16, fp16 or e4m3, in
// the layout of matvec(). Values of e4m3 are those of the codes, without the rows' scales.
inline void load_rows(const HostMemory& m, TensorId tensor, const std::vector<SelectedRow>& rows, size_t cols,
                      size_t begin, size_t count, std::vector<float>& out) {
  out.resize(rows.size() * matvec_cols(count));
  for (size_t r = 0; r < rows.size(); ++r) {
    if (m.dtype(tensor) == DType::kE4M3) {
      matvec_row_of_e4m3(m.data<const uint8_t>(tensor) + rows[r].index * e4m3_rows::row_bytes(cols) + begin,
                         count, out.data() + r * matvec_cols(count));
      continue;
    }
    const auto widen = m.dtype(tensor) == DType::kF16 ? matvec_row_of_fp16 : matvec_row;
    widen(m.data<const uint16_t>(tensor) + rows[r].index * cols + begin, count,
          out.data() + r * matvec_cols(count));
  }
}

// Multiplies each row of values [rows, …] by its scale.
inline void scale_rows(const std::vector<float>& scales, std::vector<float>& values) {
  if (scales.empty()) return;
  const size_t cols = values.size() / scales.size();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i / cols];
}

// The scales of the selected rows of a product's input in e4m3; empty for other types.
inline void load_input_scales(const HostMemory& m, TensorId input, const std::vector<SelectedRow>& rows,
                              size_t cols, std::vector<float>& scales) {
  scales.clear();
  if (m.dtype(input) != DType::kE4M3) return;
  for (const SelectedRow& r : rows)
    scales.push_back(
        e4m3_rows::scale_of(m.data<const uint8_t>(input) + r.index * e4m3_rows::row_bytes(cols), cols));
}

// RMS scale of a weighted row: products' sums are multiplied by it.
template <class Op>
float scale_of_row(const Op& op, Order order, const float* squares) {
  if (square_cols(order) == normalised_square_cols(order))
    return rms_scale(squares, op.hidden, square_cols(order), op.epsilon);
  const std::vector<float> sums = squares_of_gemm(squares, op.hidden);
  return rms_scale(sums.data(), op.hidden, kSquareColsOfTiles, op.epsilon);
}

// RMS scales of the selected rows.
template <class Op>
void load_scales(const HostMemory& m, const Op& op, const std::vector<SelectedRow>& rows,
                 std::vector<float>& scales) {
  const Order order = m.shape().order;
  scales.clear();
  for (const SelectedRow& r : rows) {
    const float* squares =
        m.data<const float>(op.squares) + size_t{r.index} * (op.hidden / square_cols(order));
    scales.push_back(scale_of_row(op, order, squares));
  }
}

// The weighted rows that `op` multiplies, and the scales of their sums.
template <class Op>
void load_weighted_rows(const HostMemory& m, const Op& op, const std::vector<SelectedRow>& rows,
                        std::vector<float>& x, std::vector<float>& scales) {
  load_rows(m, op.weighted, rows, op.hidden, 0, op.hidden, x);
  load_scales(m, op, rows, scales);
  std::vector<float> of_input;
  load_input_scales(m, op.weighted, rows, op.hidden, of_input);
  scale_rows(of_input, scales);
}

// Stores columns [first, first + count) of row `row` of the residual, and what its next readers need.
template <class Op>
void store_residual(const Op& op, const HostMemory& m, size_t row, size_t cols, size_t first,
                    const float* values, size_t count) {
  std::copy(values, values + count, m.data<float>(op.residual) + row * cols + first);
  const uint32_t of_square = square_cols(m.shape().order);
  apply_norm(values, m.data<const uint16_t>(op.norm) + first, count, of_square,
             m.data<uint16_t>(op.weighted) + row * cols + first,
             m.data<float>(op.squares) + (row * cols + first) / of_square, m.dtype(op.weighted));
}

}  // namespace serval
