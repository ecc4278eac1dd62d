#include "vm/base/json_fields.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval {

using nlohmann::json;

std::string shown(const json& value) {
  constexpr size_t kMaxShown = 80;
  if (value.is_number_float() && !std::isfinite(value.get<double>()))  // which a dump calls null
    return std::isnan(value.get<double>()) ? "NaN" : value.get<double>() > 0 ? "Infinity" : "-Infinity";
  if (value.is_array() && value.size() > kMaxShown) return fmt::format("an array of {} values", value.size());
  if (value.is_object() && value.size() > 1) return fmt::format("an object of {} fields", value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

std::string shown(std::string_view text) {
  return shown(json(text));
}

JsonFields::JsonFields(const json& value, std::string source, std::string prefix)
    : object_(value), source_(std::move(source)), prefix_(std::move(prefix)) {
  if (value.is_object()) return;
  const std::string where = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1) + ": ";
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: {}found {}, expected a JSON object", source_, where, shown(value)));
}

const json* JsonFields::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const json& JsonFields::require(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) fail(key, "missing");
  return *value;
}

JsonFields JsonFields::object(const char* key) const {
  return JsonFields(require(key), source_, prefix_ + key + ".");
}

JsonFields JsonFields::element(const char* key, size_t index) const {
  return JsonFields(require(key).at(index), source_, fmt::format("{}{}[{}].", prefix_, key, index));
}

int64_t JsonFields::integer(const char* key, int64_t least, int64_t most) const {
  const json& value = require(key);
  const bool fits = value.is_number_unsigned() ? std::cmp_less_equal(value.get<uint64_t>(), INT64_MAX)
                                               : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
    fail(key, fmt::format("found {}, expected an integer from {} to {}", shown(value), least, most));
  return value.get<int64_t>();
}

int64_t JsonFields::integer_or(const char* key, int64_t fallback, int64_t least, int64_t most) const {
  return has(key) ? integer(key, least, most) : fallback;
}

double JsonFields::number(const char* key, double least, double most) const {
  const json& value = require(key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most))
    fail(key, fmt::format("found {}, expected a number from {} to {}", shown(value), least, most));
  return number;
}

double JsonFields::number_or(const char* key, double fallback, double least, double most) const {
  return has(key) ? number(key, least, most) : fallback;
}

bool JsonFields::boolean_or(const char* key, bool fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, fmt::format("found {}, expected true or false", shown(*value)));
  return value->get<bool>();
}

std::string JsonFields::text_or(const char* key, const std::string& fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) fail(key, fmt::format("found {}, expected a string", shown(*value)));
  return value->get<std::string>();
}

std::string JsonFields::where(std::string_view key) const {
  return fmt::format("{}: {}{}", source_, prefix_, key);
}

void JsonFields::fail(std::string_view key, const std::string& problem) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", where(key), problem));
}

}  // namespace serval
