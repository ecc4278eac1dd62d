// The host's attention over some keys and values of one sequence, for one or several rows of queries: an
// output's bits depend only on its own row, not on the number of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace serval {

inline constexpr size_t kKeysAtOnce = 16;
constexpr size_t whole_key_groups(size_t num_keys) {
  return (num_keys + kKeysAtOnce - 1) / kKeysAtOnce * kKeysAtOnce;
}
// Converts keys, bf16 [num_keys, cols], to the layout of multiply_keys(): [whole_key_groups(num_keys), cols].
// cols is a multiple of 32.
void widen_keys(const uint16_t* keys, size_t num_keys, size_t cols, float* out);
// out[r × out_stride + t]: the result of matvec() with the keys as weights, to the bit; faster if num_rows is
// large enough to pay for the widening. A row of out has room for whole_key_groups(num_keys). Thread-safe.
void multiply_keys(const float* keys, size_t num_keys, size_t cols, const float* x, size_t num_rows,
                   float* out, size_t out_stride);

// Scores of a row of queries; softmax() turns them into weights in place: exp(scale × score - the largest),
// rounded to bf16.
struct SoftmaxRow {
  float* scores;
  size_t count;
  float* largest;  // out: the largest scale × score
  float* sum;      // out: sum of the weights, in order, before they are rounded
};
void softmax(std::span<const SoftmaxRow> rows, float scale);

// out[d] += Σ_t p[t] × values[t × cols + d], t in order; values are bf16, p exact in bf16. cols is a multiple
// of 16. Thread-safe.
void accumulate_rows(const uint16_t* values, size_t num_values, size_t cols, const float* p, float* out);
// For several rows: row r of p begins at r × p_stride, of out at r × out_stride.
void accumulate_rows(const uint16_t* values, size_t num_values, size_t cols, const float* p, size_t p_stride,
                     size_t num_rows, float* out, size_t out_stride);

}  // namespace serval
