#include "engine/cli/flags/parse_value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <system_error>

#include "vm/base/error.h"
#include "vm/program.h"

namespace serval::cli {
namespace {

constexpr size_t kMaxQuotedBytes = 60;  // of a value that is quoted in an error line

// Reads a number of type T; all of `text` must be used.
template <class T>
std::from_chars_result read_number(const std::string& text, T* out) {
  const char* end = text.data() + text.size();
  std::from_chars_result result = std::from_chars(text.data(), end, *out);
  if (result.ec == std::errc() && result.ptr != end) result.ec = std::errc::invalid_argument;
  return result;
}

template <class T>
T read_whole_number(const FlagValue& value, T low, T high, std::string_view also = "") {
  T number = 0;
  const std::errc error = read_number(value.text, &number).ec;
  if (error == std::errc::invalid_argument) reject(value, "is not a whole number");
  if (error == std::errc::result_out_of_range || number < low || number > high) {
    reject(value, fmt::format("is out of range: {}{} to {}", also, low, high));
  }
  return number;
}

// The comma-separated items.
std::vector<FlagValue> items_of(const FlagValue& value) {
  std::vector<FlagValue> items;
  size_t begin = 0;
  while (begin <= value.text.size()) {
    const size_t end = std::min(value.text.find(',', begin), value.text.size());
    items.push_back({value.source, value.text.substr(begin, end - begin), value.from_environment});
    begin = end + 1;
  }
  return items;
}

}  // namespace

void reject(const FlagValue& value, const std::string& why) {
  const bool cut = value.text.size() > kMaxQuotedBytes;
  throw Error(ErrorKind::kUsage, fmt::format("{}: '{}{}' {}", value.source,
                                             value.text.substr(0, kMaxQuotedBytes), cut ? "…" : "", why));
}

int64_t parse_integer(const FlagValue& value, int64_t low, int64_t high) {
  return read_whole_number<int64_t>(value, low, high);
}

uint64_t parse_unsigned(const FlagValue& value, uint64_t high, std::string_view also) {
  // from_chars accepts no sign for an unsigned type. For the user a negative number is a number out of range.
  if (value.text.starts_with('-')) {
    int64_t negative = 0;
    if (read_number(value.text, &negative).ec != std::errc::invalid_argument) {
      reject(value, fmt::format("is out of range: {}0 to {}", also, high));
    }
  }
  return read_whole_number<uint64_t>(value, 0, high, also);
}

std::vector<int> parse_integer_list(const FlagValue& value, int low, int high) {
  std::vector<int> numbers;
  for (const FlagValue& item : items_of(value))
    numbers.push_back(static_cast<int>(parse_integer(item, low, high)));
  return numbers;
}

std::vector<int> parse_gpus(const FlagValue& value) {
  constexpr int kMaxGpu = 63;
  std::vector<int> gpus;
  if (value.text.find(',') != std::string::npos) {
    gpus = parse_integer_list(value, 0, kMaxGpu);
  } else {
    gpus.resize(static_cast<size_t>(parse_integer(value, 1, kMaxDevices)));
    std::iota(gpus.begin(), gpus.end(), 0);
  }
  if (gpus.size() > kMaxDevices || !std::has_single_bit(gpus.size()))
    reject(value, fmt::format("is {} GPUs; expected 1, 2, 4 or 8", gpus.size()));
  return gpus;
}

float parse_real(const FlagValue& value, float low, float high, LowerBound bound) {
  double wide = 0;
  const std::errc error = read_number(value.text, &wide).ec;
  if (error == std::errc::invalid_argument || std::isnan(wide)) reject(value, "is not a number");
  const float number = static_cast<float>(wide);
  const bool above = bound == LowerBound::kIncluded ? number >= low : number > low;
  if (error == std::errc() && above && number <= high) return number;
  reject(value, bound == LowerBound::kIncluded
                    ? fmt::format("is out of range: {} to {}", low, high)
                    : fmt::format("is out of range: above {}, up to {}", low, high));
}

MemorySize parse_memory_size(const FlagValue& value) {
  constexpr std::string_view kUnits = "KMG";
  constexpr int kUnitBits = 10;
  constexpr int64_t kMostBytes = int64_t{1} << 50;
  FlagValue number = value;
  const char last = value.text.empty() ? ' ' : value.text.back();
  const size_t unit = kUnits.find(last);
  if (last == '%' || unit != std::string_view::npos) number.text.pop_back();
  if (last == '%') {
    constexpr float kWhole = 100;
    return {0, static_cast<double>(parse_real(number, 0, kWhole, LowerBound::kExcluded) / kWhole)};
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::ranges::all_of(number.text, is_digit))
    reject(value, "is neither bytes, as 512M or 8G, nor a share, as 80%");
  const int shift = unit == std::string_view::npos ? 0 : kUnitBits * static_cast<int>(unit + 1);
  return {static_cast<uint64_t>(parse_integer(number, 1, kMostBytes >> shift)) << shift, 0};
}

std::string parse_choice(const FlagValue& value, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (value.text == choice) return value.text;
  }
  reject(value, fmt::format("is not one of {}", fmt::join(choices, ", ")));
}

bool parse_boolean(const FlagValue& value) {
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (value.text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (value.text == no) return false;
  }
  reject(value, "is not one of 1, true, yes, on, 0, false, no, off");
}

std::string parse_text(const FlagValue& value) {
  if (value.text.empty()) reject(value, "is empty");
  return value.text;
}

}  // namespace serval::cli
