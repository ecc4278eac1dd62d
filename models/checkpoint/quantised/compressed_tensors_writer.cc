#include "models/checkpoint/quantised/compressed_tensors_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/quantised/matrix_reader.h"
#include "vm/base/error.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kCodesInWord = 8;  // of 4 bits
constexpr int kCodeBits = 4;
constexpr uint32_t kLargestCode = int4::kCodes - 1;

const char* format_of(DType dtype) {
  return is_int4(dtype) ? "pack-quantized" : "float-quantized";
}

ordered_json scheme_of(DType dtype) {
  ordered_json scheme = {{"num_bits", bits_of(dtype)},
                         {"type", is_int4(dtype) ? "int" : "float"},
                         {"strategy", is_int4(dtype) ? "group" : "channel"},
                         {"group_size", nullptr},
                         {"symmetric", !is_int4(dtype)},
                         {"dynamic", false}};
  if (is_int4(dtype)) scheme["group_size"] = group_of(dtype);
  return scheme;
}

// Activations that are rounded to e4m3 as they come, with a scale for each token; or 16 bits wide.
ordered_json inputs_json(bool e4m3) {
  if (!e4m3) return nullptr;
  return {{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"symmetric", true}, {"dynamic", true}};
}

ordered_json group_json(DType dtype, const char* target, bool e4m3_inputs) {
  return {{"targets", {target}},
          {"weights", scheme_of(dtype)},
          {"input_activations", inputs_json(e4m3_inputs && dtype == DType::kE4M3)},
          {"output_activations", nullptr},
          {"format", format_of(dtype)}};
}

// [rows, groups] of a matrix in groups.
int64_t groups_in_row(const WeightSpec& spec) {
  return is_int4(spec.dtype) ? spec.cols / group_of(spec.dtype) : 1;
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

ordered_json compressed_tensors_config(const WeightFormats& formats) {
  constexpr const char* kAllLinear = "Linear";
  // Patterns come before class names where both match.
  constexpr const char* kLmHead = "re:.*lm_head";
  const DType layers = formats.layers, lm_head = formats.lm_head;
  ordered_json groups = ordered_json::object(), ignored = ordered_json::array();
  if (has_codes(layers)) groups["group_0"] = group_json(layers, kAllLinear, formats.e4m3_inputs);
  if (has_codes(layers) && !has_codes(lm_head)) ignored.push_back("lm_head");
  if (has_codes(lm_head) && lm_head != layers)
    groups[fmt::format("group_{}", groups.size())] = group_json(lm_head, kLmHead, formats.e4m3_inputs);
  const bool mixed =
      has_codes(layers) && has_codes(lm_head) && std::string_view(format_of(layers)) != format_of(lm_head);
  ordered_json config = {
      {"quant_method", "compressed-tensors"},
      {"format", mixed ? "mixed-precision" : format_of(has_codes(layers) ? layers : lm_head)},
      {"quantization_status", "compressed"},
      {"config_groups", groups},
      {"ignore", ignored},
      {"kv_cache_scheme", nullptr}};
  // transformers 5.23 has no place for packed zero points, but dequantises matrices of one scheme as it loads
  // them, where its own key asks for it.
  if (groups.size() == 1 && is_int4(has_codes(layers) ? layers : lm_head)) config["dequantize"] = true;
  return config;
}

std::vector<PlannedTensor> compressed_tensors_of(const WeightSpec& spec) {
  const std::string module = module_of(spec.name) + '.';
  const int64_t rows = spec.rows, cols = spec.cols, groups = groups_in_row(spec);
  if (spec.dtype == DType::kE4M3)
    return {{module + "weight", StoredType::kF8E4M3, {rows, cols}},
            {module + "weight_scale", StoredType::kF32, {rows, 1}}};
  return {
      {module + "weight_shape", StoredType::kI64, {2}},
      {module + "weight_packed", StoredType::kI32, {rows, cols / kCodesInWord}},
      {module + "weight_zero_point", StoredType::kI32, {(rows + kCodesInWord - 1) / kCodesInWord, groups}},
      {module + "weight_scale", StoredType::kF32, {rows, groups}}};
}

CompressedMatrix::CompressedMatrix(const WeightSpec& spec, std::string where)
    : spec_(spec), where_(std::move(where)), groups_(groups_in_row(spec)), shape_{spec.rows, spec.cols} {
  const int64_t rows = spec.rows, words = spec.cols / kCodesInWord;
  scales_.resize(static_cast<size_t>(rows * groups_));
  if (!is_int4(spec.dtype)) {
    codes_.resize(static_cast<size_t>(spec.elements()));
    return;
  }
  packed_.resize(static_cast<size_t>(rows * words));
  zeros_.resize(static_cast<size_t>((rows + kCodesInWord - 1) / kCodesInWord * groups_));
}

void CompressedMatrix::set_rows(int64_t first_row, int64_t row_count, const uint8_t* rows) {
  for (int64_t row = first_row; row < first_row + row_count; ++row, rows += spec_.row_bytes()) {
    if (is_int4(spec_.dtype)) {
      set_int4_row(row, rows);
    } else {
      set_e4m3_row(row, rows);
    }
  }
}

void CompressedMatrix::set_e4m3_row(int64_t row, const uint8_t* codes) {
  const auto width = static_cast<uint64_t>(spec_.cols);
  std::memcpy(codes_.data() + row * spec_.cols, codes, width);
  scales_[static_cast<size_t>(row)] = e4m3_rows::scale_of(codes, width);
}

void CompressedMatrix::set_int4_row(int64_t row, const uint8_t* codes) {
  const auto width = static_cast<uint64_t>(spec_.cols);
  uint32_t* words = packed_.data() + row * spec_.cols / kCodesInWord;
  for (uint64_t col = 0; col < width; col += kCodesInWord) {
    uint32_t word = 0;
    for (uint64_t i = 0; i < kCodesInWord; ++i) word |= int4_rows::code_of(codes, col + i) << (kCodeBits * i);
    *words++ = word;
  }
  const float row_scale = int4_rows::scale_of(codes, width, group_of(spec_.dtype));
  for (int64_t group = 0; group < groups_; ++group)
    set_group(row, group, int4_rows::word_of(codes, width, static_cast<uint64_t>(group)), row_scale);
}

void CompressedMatrix::set_group(int64_t row, int64_t group, uint32_t word, float row_scale) {
  const auto fail = [&](const std::string& found) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: group {} of row {} has {}; compressed-tensors has zero points of 0 to {}",
                            where_, group, row, found, kLargestCode));
  };
  if (!int4::has_zero_point(word)) fail("a minimum instead of a zero point");
  const uint32_t zero = int4::zero_point_of(word);
  if (zero > kLargestCode) fail(fmt::format("the zero point {}", zero));
  // A power of two times an fp16 number, which is exact.
  scales_[static_cast<size_t>(row * groups_ + group)] = fp16_to_float(int4::scale_of(word)) * row_scale;
  zeros_[static_cast<size_t>(row / kCodesInWord * groups_ + group)] |= zero
                                                                       << (kCodeBits * (row % kCodesInWord));
}

std::vector<CompressedMatrix::Tensor> CompressedMatrix::tensors() {
  if (!is_int4(spec_.dtype))
    return {{StoredType::kF8E4M3, bytes_of(codes_)}, {StoredType::kF32, bytes_of(scales_)}};
  std::vector<Tensor> all = {{StoredType::kI64, std::as_bytes(std::span(shape_))},
                             {StoredType::kI32, bytes_of(packed_)},
                             {StoredType::kI32, bytes_of(zeros_)}};
  const bool fits =
      std::ranges::all_of(scales_, [](float scale) { return fp16_to_float(float_to_fp16(scale)) == scale; });
  if (!fits) {
    all.push_back({StoredType::kF32, bytes_of(scales_)});
    return all;
  }
  narrow_scales_.clear();
  for (const float scale : scales_) narrow_scales_.push_back(float_to_fp16(scale));
  all.push_back({StoredType::kF16, bytes_of(narrow_scales_)});
  return all;
}

}  // namespace serval
