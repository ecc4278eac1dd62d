// Stores matrices in codes in the layouts of the package compressed-tensors, which transformers and vLLM
// read, too: "float-quantized" for e4m3 with a scale for each row, "pack-quantized" for 4-bit integers in
// groups with zero points.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint_writer.h"
#include "models/checkpoint/weight_spec.h"
#include "models/model.h"

namespace serval {

// Makes "quantization_config" for a model with these formats, at least one of which has codes.
nlohmann::ordered_json compressed_tensors_config(const WeightFormats& formats);

// The tensors of a matrix of type has_codes(), in the order of CompressedMatrix::tensors(), with the largest
// types that these may have.
std::vector<PlannedTensor> compressed_tensors_of(const WeightSpec& spec);

// A matrix that is converted from rows of codes. It is as large as its tensors are.
class CompressedMatrix {
 public:
  static constexpr int64_t kRowStep = 8;  // rows whose zero points share words

  // `where` names the matrix in error lines.
  CompressedMatrix(const WeightSpec& spec, std::string where);

  // Converts rows of row_bytes_of(dtype, cols) (vm/layout/weight_rows.h). `first_row` is a multiple of
  // kRowStep, and so is row_count, except at the end. Throws Error(kRuntime) for a group with a minimum
  // instead of a zero point, and for a zero point of 16: the layout has neither. Threads may convert
  // different rows at once.
  void set_rows(int64_t first_row, int64_t row_count, const uint8_t* rows);

  struct Tensor {
    StoredType dtype;
    std::span<const std::byte> bytes;  // valid as long as the matrix
  };
  // Scales of groups are F16 if that is exact for all of them, else F32, which is. Call it once all rows are
  // set.
  std::vector<Tensor> tensors();

 private:
  void set_e4m3_row(int64_t row, const uint8_t* codes);
  void set_int4_row(int64_t row, const uint8_t* codes);
  void set_group(int64_t row, int64_t group, uint32_t word, float row_scale);

  const WeightSpec& spec_;
  const std::string where_;
  int64_t groups_ = 1;            // of a row
  std::vector<uint8_t> codes_;    // e4m3: [rows, cols]
  std::vector<uint32_t> packed_;  // int4: [rows, cols / 8]
  std::vector<uint32_t> zeros_;   // int4: [rows / 8, groups]
  std::vector<float> scales_;     // [rows, groups]
  std::vector<uint16_t> narrow_scales_;
  int64_t shape_[2];
};

}  // namespace serval
