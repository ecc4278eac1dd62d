// Typed, bounded reading of the fields of a JSON object; every failure is one line that names file, field,
// what was found and what is allowed. Private to the library: it includes nlohmann/json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace serval {

// A value (or a name from a file) as JSON in ASCII, on one line and cut to a readable length.
std::string shown(const nlohmann::json& value);

// Reads the fields of `object`, which must outlive it. A field that is null counts as absent.
class JsonFields {
 public:
  // `source` names the file in error lines, `prefix` the enclosing object ("rope_scaling." or nothing).
  // Throws if `value` is not an object.
  JsonFields(const nlohmann::json& value, std::string source, std::string prefix = {});

  const nlohmann::json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  // True also if the field is null.
  bool mentions(const char* key) const { return object_.contains(key); }
  JsonFields object(const char* key) const;
  // An element of an array; `index` must be in range.
  JsonFields element(const char* key, size_t index) const;

  int64_t integer(const char* key, int64_t least, int64_t most) const;
  int64_t integer_or(const char* key, int64_t fallback, int64_t least, int64_t most) const;
  // A finite number within [least, most].
  double number(const char* key, double least, double most) const;
  double number_or(const char* key, double fallback, double least, double most) const;
  bool boolean_or(const char* key, bool fallback) const;
  std::string text_or(const char* key, const std::string& fallback) const;

  // "source: key", as in error lines.
  std::string where(std::string_view key) const;
  // Throws Error(kRuntime): "source: key: problem".
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;

 private:
  const nlohmann::json& require(const char* key) const;

  const nlohmann::json& object_;
  std::string source_;
  std::string prefix_;
};

}  // namespace serval
