#include "engine/server/api/body_fields.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "engine/server/api/limits.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/json_file.h"

namespace serval::server {

using nlohmann::json;

namespace {

// Compares without overflow: JSON integers reach from INT64_MIN to UINT64_MAX.
bool is_within(const json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
  const int64_t number = value.get<int64_t>();
  return number >= least && number <= most;
}

}  // namespace

json parse_body(const std::string& body) {
  json parsed;
  try {
    parsed = parse_json_text(body, "body", api_limit::kBodyDepth);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_json", error.what());
  }
  if (!parsed.is_object()) throw ApiError(400, "invalid_json", "body: expected a JSON object");
  return parsed;
}

std::string shown_value(const json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return shown(value);
}

const json* BodyFields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> BodyFields::integer(const char* name, int64_t least, int64_t most) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) fail(name, shown_value(*value) + "; expected an integer");
  if (!is_within(*value, least, most))
    fail(name, fmt::format("{}; limit: {} to {}", shown_value(*value), least, most));
  return value->get<int64_t>();
}

std::optional<double> BodyFields::number(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, shown_value(*value) + "; expected a number");
  const auto number = value->get<double>();
  if (!std::isfinite(number)) fail(name, "expected a finite number");
  return number;
}

std::optional<bool> BodyFields::boolean(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, shown_value(*value) + "; expected true or false");
  return value->get<bool>();
}

std::optional<std::string> BodyFields::text(const char* name, size_t most_bytes) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, shown_value(*value) + "; expected a string");
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most_bytes) fail(name, fmt::format("{} bytes; limit: {}", text.size(), most_bytes));
  return text;
}

std::vector<std::string> BodyFields::texts(const char* name, size_t most, size_t most_bytes) const {
  const json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {*text(name, most_bytes)};
  if (!value->is_array()) fail(name, shown_value(*value) + "; expected a string or an array of strings");
  if (value->size() > most) fail(name, fmt::format("{} strings; limit: {}", value->size(), most));
  std::vector<std::string> texts;
  for (const json& element : *value) {
    if (!element.is_string()) fail(name, shown_value(element) + " in the array; expected strings");
    texts.push_back(element.get<std::string>());
    if (texts.back().size() > most_bytes)
      fail(name, fmt::format("a string of {} bytes; limit: {}", texts.back().size(), most_bytes));
  }
  return texts;
}

std::vector<std::string> BodyFields::filled_texts(const char* name, size_t most, size_t most_bytes) const {
  std::vector<std::string> texts = this->texts(name, most, most_bytes);
  if (std::ranges::find(texts, "") != texts.end()) fail(name, "an empty string; expected at least 1 byte");
  return texts;
}

const json& object_in(const json& of, const char* member, const std::string& name) {
  const auto found = of.find(member);
  if (found == of.end()) refuse_parameter(name, "absent; expected an object");
  if (!found->is_object()) refuse_parameter(name, shown_value(*found) + "; expected an object");
  return *found;
}

std::vector<int32_t> token_ids_of(const json& array, const std::string& name, size_t most) {
  if (!array.is_array()) refuse_parameter(name, shown_value(array) + "; expected an array of token ids");
  if (array.size() > most) refuse_parameter(name, fmt::format("{} tokens; limit: {}", array.size(), most));
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const json& element : array) {
    if (!element.is_number_integer() || !is_within(element, 0, INT32_MAX))
      refuse_parameter(name, shown_value(element) + " in the array; expected token ids");
    ids.push_back(element.get<int32_t>());
  }
  return ids;
}

std::vector<int32_t> BodyFields::token_ids(const char* name, size_t most) const {
  const json* value = find(name);
  return value == nullptr ? std::vector<int32_t>() : token_ids_of(*value, full_name(name), most);
}

void BodyFields::refuse_others(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || std::ranges::find(known, name) != known.end()) continue;
    const std::string full = prefix_ + (name.size() > 64 ? name.substr(0, 64) + "…" : name);
    throw ApiError(400, "unsupported_parameter", shown(full) + " is not supported", full);
  }
}

}  // namespace serval::server
