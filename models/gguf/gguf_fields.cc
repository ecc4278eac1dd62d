// Implements GgufFields: typed access to metadata.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"

#include "models/gguf/gguf_file.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

template <typename T>
T element(const GgufValue& value, size_t index) {
  T out;
  std::memcpy(&out, value.bytes.data() + index * sizeof out, sizeof out);
  return out;
}

// nullopt if the element is not an integer or exceeds 2^63 − 1.
std::optional<int64_t> integer_at(const GgufValue& value, size_t index) {
  switch (value.type) {
    case GgufValueType::kU8:
      return element<uint8_t>(value, index);
    case GgufValueType::kI8:
      return element<int8_t>(value, index);
    case GgufValueType::kU16:
      return element<uint16_t>(value, index);
    case GgufValueType::kI16:
      return element<int16_t>(value, index);
    case GgufValueType::kU32:
      return element<uint32_t>(value, index);
    case GgufValueType::kI32:
      return element<int32_t>(value, index);
    case GgufValueType::kI64:
      return element<int64_t>(value, index);
    case GgufValueType::kU64: {
      const auto number = element<uint64_t>(value, index);
      return std::cmp_less_equal(number, INT64_MAX) ? std::optional(static_cast<int64_t>(number))
                                                    : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(const GgufValue& value, size_t index) {
  if (value.type == GgufValueType::kF32) return element<float>(value, index);
  if (value.type == GgufValueType::kF64) return element<double>(value, index);
  const auto integer = integer_at(value, index);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::string_view text_at(std::span<const std::byte>& rest) {
  uint64_t length = 0;
  std::memcpy(&length, rest.data(), sizeof length);
  const auto* begin = reinterpret_cast<const char*>(rest.data()) + sizeof length;
  rest = rest.subspan(sizeof length + length);
  return {begin, length};
}

}  // namespace

const GgufValue* GgufFields::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string GgufFields::first_with_prefix(std::string_view prefix) const {
  const auto found = values_.lower_bound(prefix);
  return found != values_.end() && found->first.starts_with(prefix) ? found->first : "";
}

const GgufValue& GgufFields::scalar(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "missing");
  if (value->is_array)
    fail(key, fmt::format("found an array of {} elements, expected one value", value->count));
  return *value;
}

const GgufValue& GgufFields::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "missing");
  if (!value->is_array) fail(key, "found one value, expected an array");
  return *value;
}

std::string_view GgufFields::text(std::string_view key) const {
  const GgufValue& value = scalar(key);
  if (value.type != GgufValueType::kString) fail(key, "found a number, expected a string");
  std::span<const std::byte> bytes = value.bytes;
  return text_at(bytes);
}

std::string GgufFields::text_or(std::string_view key, std::string_view otherwise) const {
  return std::string(has(key) ? text(key) : otherwise);
}

bool GgufFields::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const GgufValue& value = scalar(key);
  if (value.type != GgufValueType::kBool) fail(key, "expected true or false");
  return element<uint8_t>(value, 0) != 0;
}

int64_t GgufFields::integer(std::string_view key, int64_t least, int64_t most) const {
  const std::optional<int64_t> number = integer_at(scalar(key), 0);
  if (!number) fail(key, fmt::format("expected an integer from {} to {}", least, most));
  if (*number < least || *number > most)
    fail(key, fmt::format("found {}, expected an integer from {} to {}", *number, least, most));
  return *number;
}

std::optional<int64_t> GgufFields::find_integer(std::string_view key, int64_t least, int64_t most) const {
  return has(key) ? std::optional(integer(key, least, most)) : std::nullopt;
}

double GgufFields::number(std::string_view key) const {
  const std::optional<double> number = number_at(scalar(key), 0);
  if (!number || !std::isfinite(*number)) fail(key, "expected a finite number");
  return *number;
}

std::optional<double> GgufFields::find_number(std::string_view key) const {
  return has(key) ? std::optional(number(key)) : std::nullopt;
}

bool GgufFields::is_empty_or_zero(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return true;
  // All bytes of a 0 and of an empty string's length are zero. -0.0 counts as not zero.
  return std::ranges::all_of(value->bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::vector<std::string_view> GgufFields::texts(std::string_view key) const {
  const GgufValue& value = array(key);
  if (value.type != GgufValueType::kString) fail(key, "expected an array of strings");
  std::vector<std::string_view> out;
  out.reserve(value.count);  // safe: each string has at least eight bytes in the file
  std::span<const std::byte> rest = value.bytes;
  for (uint64_t i = 0; i < value.count; ++i) out.push_back(text_at(rest));
  return out;
}

std::vector<float> GgufFields::floats(std::string_view key) const {
  const GgufValue& value = array(key);
  if (value.type != GgufValueType::kF32) fail(key, "expected an array of fp32 numbers");
  std::vector<float> out(value.count);
  std::memcpy(out.data(), value.bytes.data(), value.bytes.size());
  return out;
}

std::vector<int64_t> GgufFields::integers(std::string_view key) const {
  const GgufValue& value = array(key);
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < value.count; ++i) {
    const std::optional<int64_t> number = integer_at(value, i);
    if (!number) fail(key, "expected an array of integers below 2^63");
    out.push_back(*number);
  }
  return out;
}

void GgufFields::fail(std::string_view key, const std::string& problem) const {
  const bool plain =
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
      std::string_view::npos;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: {}: {}", source_, plain ? std::string(key) : in_quotes(key), problem));
}

}  // namespace serval
