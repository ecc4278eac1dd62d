// A checkpoint that stores weights in codes, for tests of models that keep them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/checkpoint/quantise_rows.h"
#include "models/checkpoint/weights.h"
#include "models/model.h"
#include "vm/base/int4.h"
#include "vm/layout/int4_rows.h"
#include "vm/layout/weight_rows.h"

namespace serval::testing {

// What the words of 4-bit groups hold beside their scales.
enum class GroupWords { kZeroPoints, kMinima };

// Stores the matrices that `model` has in codes as quantise_rows() rounds them, and the others as they are.
// With kMinima each zero point z is replaced by the minimum −s × z, rounded to fp16.
class StoredWeights final : public WeightSource {
 public:
  // `bf16` has the weights of the same model with all formats bf16.
  StoredWeights(const Model& model, std::shared_ptr<const WeightSource> bf16,
                GroupWords words = GroupWords::kZeroPoints)
      : WeightSource(model), bf16_(std::move(bf16)), words_(words) {}

  std::string name() const override { return "stored"; }
  bool keeps_codes(size_t tensor) const override { return has_codes(specs()[tensor].dtype); }
  void read_codes(size_t tensor, int64_t first_row, int64_t row_count, uint8_t* to) const override {
    const DType dtype = specs()[tensor].dtype;
    const int64_t cols = specs()[tensor].cols;
    std::vector<uint16_t> rows(static_cast<size_t>(row_count * cols));
    read(tensor, first_row * cols, rows);
    quantise_rows(dtype, rows.data(), row_count, cols, to);
    if (!is_int4(dtype) || words_ == GroupWords::kZeroPoints) return;
    for (int64_t r = 0; r < row_count; ++r)
      give_minima(dtype, static_cast<uint64_t>(cols),
                  to + static_cast<uint64_t>(r) * row_bytes_of(dtype, static_cast<uint64_t>(cols)));
  }
  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    bf16_->read(bf16_->index_of(specs()[tensor].name), first, out);
  }

 private:
  static void give_minima(DType dtype, uint64_t cols, uint8_t* row) {
    for (uint64_t i = 0; i < int4_rows::groups(cols, group_of(dtype)); ++i) {
      const uint32_t word = int4_rows::word_of(row, cols, i);
      const float minimum = int4::value_of(word, 0);
      int4_rows::set_word(row, cols, i,
                          int4::word_with_minimum(int4::scale_of(word), float_to_fp16(minimum)));
    }
  }

  std::shared_ptr<const WeightSource> bf16_;
  GroupWords words_;
};

inline std::shared_ptr<const ModelWeights> stored_in_codes(const Model& model,
                                                           std::shared_ptr<const WeightSource> bf16,
                                                           GroupWords words = GroupWords::kZeroPoints) {
  return std::make_shared<const ModelWeights>(
      ModelWeights::materialise(std::make_shared<const StoredWeights>(model, std::move(bf16), words)));
}

}  // namespace serval::testing
