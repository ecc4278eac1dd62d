#include "models/checkpoint/not_finite.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "vm/base/error.h"
#include "vm/layout/e4m3_rows.h"

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

int64_t first_not_finite_e4m3(const uint8_t* rows, int64_t row_count, int64_t cols) {
  const auto width = static_cast<size_t>(cols);
  for (int64_t row = 0; row < row_count; ++row, rows += e4m3_rows::row_bytes(width)) {
    if (!std::isfinite(e4m3_rows::scale_of(rows, width))) return row * cols;
    const std::span codes(rows, width);
    if (any_nan_in_e4m3(codes))
      return row * cols + (std::ranges::find_if(codes, is_nan_in_e4m3) - codes.begin());
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
