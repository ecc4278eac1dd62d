// Converts the text of a flag, or of its environment variable, to a value within limits.
//
// Every function throws Error(kUsage) with one line that names the flag or variable, the text and the limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "vm/base/enum_names.h"

namespace serval::cli {

struct FlagValue {
  std::string source;  // "--temp", or "SERVAL_TEMP"
  std::string text;
  bool from_environment = false;
};

// Throws Error(kUsage) with the flag, its text and the reason.
[[noreturn]] void reject(const FlagValue& value, const std::string& why);

// A whole number in decimal, low <= n <= high.
int64_t parse_integer(const FlagValue& value, int64_t low, int64_t high);
// `also` completes the error line with values that the caller accepts itself: "-1, or ".
uint64_t parse_unsigned(const FlagValue& value, uint64_t high, std::string_view also = "");

// Comma-separated whole numbers, each within the limits; at least one.
std::vector<int> parse_integer_list(const FlagValue& value, int low, int high);

// A number of GPUs, 1 to kMaxDevices, or a list of GPU indices: a power of two of them.
std::vector<int> parse_gpus(const FlagValue& value);

// A finite number, low <= x <= high, or low < x <= high. The comparison is made after rounding to float.
enum class LowerBound { kIncluded, kExcluded };
float parse_real(const FlagValue& value, float low, float high, LowerBound bound = LowerBound::kIncluded);

// Bytes, with the suffix K, M or G for 2^10, 2^20 or 2^30, or a percentage as a share; the other member is 0.
struct MemorySize {
  uint64_t bytes = 0;
  double share = 0;  // above 0, up to 1
};
MemorySize parse_memory_size(const FlagValue& value);

// One of `choices`, exactly.
std::string parse_choice(const FlagValue& value, const std::vector<std::string>& choices);
// One of the names of an enumeration.
template <NamedEnum E>
E parse_enumerator(const FlagValue& value) {
  const auto names = enumerator_names<E>();
  return enumerator_named<E>(parse_choice(value, {names.begin(), names.end()})).value();
}
// These names for a help text: "auto, on, off".
template <NamedEnum E>
std::string listed() {
  return fmt::format("{}", fmt::join(enumerator_names<E>(), ", "));
}

// 1, true, yes, on; 0, false, no, off.
bool parse_boolean(const FlagValue& value);

// Text of at least one byte.
std::string parse_text(const FlagValue& value);

}  // namespace serval::cli
