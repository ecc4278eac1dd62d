// What the host handlers keep of the pass's rows between their roles.
#pragma once

#include <vector>

#include "vm/bf16.h"
#include "vm/host/memory.h"
#include "vm/state.h"

namespace serval {

// A copy of one row of the pass and its index, taken by the load role.
struct SelectedRow {
  uint32_t index;  // row of the pass: row of the [kMaxRows, …] tensors
  PassRow row;
};

template <class Wanted>
void select_rows(const HostMemory& m, TensorId rows, Wanted&& wanted, std::vector<SelectedRow>& out) {
  const PassRow* table = m.data<const PassRow>(rows);
  out.clear();
  for (uint32_t r = 0; r < kMaxRows; ++r) {
    if (wanted(table[r])) out.push_back({r, table[r]});
  }
}

// Copies columns [begin, begin + count) of the selected rows of a [kMaxRows, cols] bf16 tensor, widened to
// float.
inline void load_bf16_rows(const HostMemory& m, TensorId tensor, const std::vector<SelectedRow>& rows,
                           size_t cols, size_t begin, size_t count, std::vector<float>& out) {
  out.resize(rows.size() * count);
  for (size_t r = 0; r < rows.size(); ++r) {
    const uint16_t* from = m.data<const uint16_t>(tensor) + rows[r].index * cols + begin;
    for (size_t i = 0; i < count; ++i) out[r * count + i] = bf16_to_float(from[i]);
  }
}

inline void load_f32_rows(const HostMemory& m, TensorId tensor, const std::vector<SelectedRow>& rows,
                          size_t cols, std::vector<float>& out) {
  out.resize(rows.size() * cols);
  for (size_t r = 0; r < rows.size(); ++r) {
    const float* from = m.data<const float>(tensor) + rows[r].index * cols;
    std::copy(from, from + cols, out.begin() + static_cast<ptrdiff_t>(r * cols));
  }
}

}  // namespace serval
