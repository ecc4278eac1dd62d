#include "models/checkpoint/not_finite.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "vm/base/error.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

constexpr size_t kBlock = 4096;  // elements that are checked together

// Adding 1 to the exponent carries into the highest bit if all its bits are ones: NaN or infinity.
constexpr uint16_t kExponent = 0x7F80, kExponentOne = 0x0080, kCarry = 0x8000;
constexpr uint16_t exponent_plus_one(uint16_t bits) {
  return static_cast<uint16_t>((bits & kExponent) + kExponentOne);
}

// The loop has no early exit, so that the compiler vectorises it.
bool any_not_finite(std::span<const uint16_t> bf16) {
  uint16_t any = 0;
  for (const uint16_t bits : bf16) any |= exponent_plus_one(bits);
  return (any & kCarry) != 0;
}

constexpr bool is_nan_in_e4m3(uint8_t code) {
  constexpr uint8_t kMagnitude = 0x7F;
  return (code & kMagnitude) == kMagnitude;
}

// Without an early exit, as above.
bool any_nan_in_e4m3(std::span<const uint8_t> codes) {
  uint8_t any = 0;
  for (const uint8_t code : codes) any |= static_cast<uint8_t>(is_nan_in_e4m3(code));
  return any != 0;
}

// The column of a row's first element that is not finite; -1 if all are finite.
int64_t first_not_finite_in_e4m3(const uint8_t* row, size_t cols) {
  if (!std::isfinite(e4m3_rows::scale_of(row, cols))) return 0;
  const std::span codes(row, cols);
  if (!any_nan_in_e4m3(codes)) return -1;
  return std::ranges::find_if(codes, is_nan_in_e4m3) - codes.begin();
}

// Values of a group grow or fall with the code, so all are finite if the first and the last are.
int64_t first_not_finite_in_int4(uint32_t group, const uint8_t* row, size_t cols) {
  if (!std::isfinite(int4_rows::scale_of(row, cols, group))) return 0;
  for (size_t first = 0; first < cols; first += group) {
    const uint32_t word = int4_rows::word_of(row, cols, first / group);
    const auto is_finite = [&](uint32_t code) { return std::isfinite(int4::value_of(word, code)); };
    if (is_finite(0) && is_finite(int4::kCodes - 1)) continue;
    for (size_t col = first; col < first + group; ++col)
      if (!is_finite(int4_rows::code_of(row, col))) return static_cast<int64_t>(col);
  }
  return -1;
}

}  // namespace

size_t first_not_finite(std::span<const uint16_t> bf16) {
  for (size_t begin = 0; begin < bf16.size(); begin += kBlock) {
    const auto block = bf16.subspan(begin, std::min(kBlock, bf16.size() - begin));
    if (!any_not_finite(block)) continue;
    const auto bad =
        std::ranges::find_if(block, [](uint16_t bits) { return (exponent_plus_one(bits) & kCarry) != 0; });
    return begin + static_cast<size_t>(bad - block.begin());
  }
  return bf16.size();
}

int64_t first_not_finite_code(DType dtype, const uint8_t* rows, int64_t row_count, int64_t cols) {
  const auto width = static_cast<size_t>(cols);
  for (int64_t row = 0; row < row_count; ++row, rows += row_bytes_of(dtype, width)) {
    const int64_t col = dtype == DType::kE4M3 ? first_not_finite_in_e4m3(rows, width)
                                              : first_not_finite_in_int4(group_of(dtype), rows, width);
    if (col >= 0) return row * cols + col;
  }
  return -1;
}

void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index, float stored) {
  const std::string place = spec.kind == WeightKind::kMatrix
                                ? fmt::format("[{}, {}]", index / spec.cols, index % spec.cols)
                                : fmt::format("[{}]", index);
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: element {} is {}{}; --allow-nonfinite (allow_nonfinite) loads it", where,
                          place, stored, std::isfinite(stored) ? ", more than bf16 can hold" : ""));
}

}  // namespace serval
