// How a checkpoint's configuration says that a weight matrix is stored.
#pragma once

#include <cstdint>
#include <string>

#include "models/checkpoint/quantised/quantised_matrix.h"

namespace serval {

// Tensors of a module M, and their shapes for a matrix [rows, cols]. n: codes in a 32-bit word.
enum class WeightLayout : uint8_t {
  kScaled,  // M.weight [rows, cols], M.weight_scale (or weight_scale_inv), M.weight_zero_point
  kPacked,  // M.weight_packed [rows, cols / n], M.weight_scale, M.weight_shape, M.weight_zero_point [rows /
            // n, groups], M.weight_g_idx
  kGptq,    // M.qweight [cols / n, rows], M.qzeros [groups, rows / n], M.scales [groups, rows], M.g_idx
  kAwq,     // M.qweight [cols, rows / n], M.qzeros [groups, rows / n], M.scales [groups, rows]
};

// Which elements share a scale.
enum class Granularity : uint8_t {
  kTensor,
  kRow,
  kTensorOrRow,  // the number of scales tells
  kGroup,        // block_cols neighbours in a row
  kBlock,        // block_rows × block_cols
};

struct WeightScheme {
  WeightLayout layout = WeightLayout::kScaled;
  CodeType type = CodeType::kE4M3;
  Granularity granularity = Granularity::kTensor;
  int64_t block_rows = 0, block_cols = 0;
  bool has_zero_points = false;
  // kGptq only. Zero points are stored less one, subtracted from whole words if `zeros_borrow`. With
  // `needs_g_idx` the file must have g_idx, the groups of the columns.
  bool zeros_less_one = false, zeros_borrow = false, needs_g_idx = false;

  int bits() const { return type == CodeType::kUint4 ? 4 : 8; }
};

// "4-bit integers in groups of 128".
std::string scheme_text(const WeightScheme& scheme);

}  // namespace serval
