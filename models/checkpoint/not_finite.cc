#include "models/checkpoint/not_finite.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "vm/base/error.h"

namespace serval {
namespace {

constexpr size_t kBlock = 4096;  // elements that are looked at together

// The highest bit is set if the exponent is all ones: one more carries into it.
constexpr uint16_t kExponent = 0x7F80, kOneMore = 0x0080, kCarry = 0x8000;
constexpr uint16_t carried(uint16_t bits) {
  return static_cast<uint16_t>((bits & kExponent) + kOneMore);
}

// Without an exit in the middle, so that the compiler makes vector code of it.
bool any_not_finite(std::span<const uint16_t> bf16) {
  uint16_t any = 0;
  for (const uint16_t bits : bf16) any |= carried(bits);
  return (any & kCarry) != 0;
}

}  // namespace

size_t first_not_finite(std::span<const uint16_t> bf16) {
  for (size_t begin = 0; begin < bf16.size(); begin += kBlock) {
    const auto block = bf16.subspan(begin, std::min(kBlock, bf16.size() - begin));
    if (!any_not_finite(block)) continue;
    const auto bad = std::ranges::find_if(block, [](uint16_t bits) { return (carried(bits) & kCarry) != 0; });
    return begin + static_cast<size_t>(bad - block.begin());
  }
  return bf16.size();
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
