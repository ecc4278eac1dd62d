#include "models/tokenizer/json_field.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {

using nlohmann::json;

namespace {

// Other keys are quoted in paths: keys of a vocabulary are tokens, which may contain line breaks.
bool is_identifier(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

bool JsonField::is_text() const {
  return value_->is_string();
}
bool JsonField::is_array() const {
  return value_->is_array();
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  const json& members = object();
  const auto member = members.find(key);
  if (member == members.end() || member->is_null()) return std::nullopt;
  const std::string step = is_identifier(key) ? std::string(key) : in_quotes(key);
  return JsonField(*member, file_, path_.empty() ? step : path_ + "." + step);
}

JsonField JsonField::at(std::string_view key) const {
  if (auto member = find(key)) return *std::move(member);
  fail(fmt::format("has no {}", in_quotes(key)));
}

std::size_t JsonField::size() const {
  if (!value_->is_array()) fail_type("an array");
  return value_->size();
}

JsonField JsonField::element(std::size_t index) const {
  return JsonField((*value_)[index], file_, fmt::format("{}[{}]", path_, index));
}

const json& JsonField::object() const {
  if (!value_->is_object()) fail_type("an object");
  return *value_;
}

const std::string& JsonField::text() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail_type("a number");
  return value_->get<double>();
}

std::int64_t JsonField::integer(std::int64_t low, std::int64_t high) const {
  if (!value_->is_number_integer()) fail_type("an integer");
  // An unsigned value above INT64_MAX would wrap; it exceeds `high` in any case.
  const bool wraps = value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX;
  const std::int64_t number = wraps ? INT64_MAX : value_->get<std::int64_t>();
  if (wraps || number < low || number > high)
    fail(fmt::format("{} is not in {}…{}", value_->dump(), low, high));
  return number;
}

bool JsonField::flag(std::string_view key, bool otherwise) const {
  const auto member = find(key);
  return member ? member->boolean() : otherwise;
}

std::string JsonField::where() const {
  return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_);
}

void JsonField::fail(std::string_view what) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", where(), what));
}

void JsonField::fail_type(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, value_->type_name()));
}

}  // namespace serval
