// Typed reading of a request's body. Every failure is an ApiError (400) that names the parameter, what was
// found and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"

namespace serval::server {

// The body as a JSON object. 400 for anything else, and for nesting deeper than limits.h has it, and for
// counts and repeated keys beyond vm/base/json_file.h.
nlohmann::json parse_body(const std::string& body);

// Reads from `object`, which outlives it. A parameter that is null counts as absent.
class BodyFields {
 public:
  // `prefix` is the enclosing object in messages: "stream_options." or nothing.
  explicit BodyFields(const nlohmann::json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  const nlohmann::json* find(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most) const;
  std::optional<double> number(const char* name) const;  // finite
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::string> text(const char* name, size_t most_bytes) const;
  // A string, or an array of them.
  std::vector<std::string> texts(const char* name, size_t most, size_t most_bytes) const;
  // An array of token ids; what lies in the vocabulary is checked later.
  std::vector<int32_t> token_ids(const char* name, size_t most) const;
  // Refuses members that are not among `known`.
  void refuse_others(std::initializer_list<std::string_view> known) const;

  std::string full_name(const char* name) const { return prefix_ + name; }

 private:
  [[noreturn]] void fail(const char* name, const std::string& problem) const {
    refuse_parameter(full_name(name), problem);
  }
  const nlohmann::json& object_;
  std::string prefix_;
};

// The elements of an array of integers. `name` is the array's, for messages.
std::vector<int32_t> token_ids_of(const nlohmann::json& array, const std::string& name, size_t most);

// A value as messages show it: its JSON, cut where it is long.
std::string shown_value(const nlohmann::json& value);

}  // namespace serval::server
