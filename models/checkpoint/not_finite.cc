#include "models/checkpoint/not_finite.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "vm/base/error.h"

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

void refuse_not_finite(const std::string& where, const WeightSpec& spec, int64_t index, float stored) {
  const std::string place = spec.kind == WeightKind::kMatrix
                                ? fmt::format("[{}, {}]", index / spec.cols, index % spec.cols)
                                : fmt::format("[{}]", index);
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: element {} is {}{}; --allow-nonfinite (allow_nonfinite) loads it", where,
                          place, stored, std::isfinite(stored) ? ", more than bf16 can hold" : ""));
}

}  // namespace serval
