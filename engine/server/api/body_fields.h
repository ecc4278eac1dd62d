// Reads typed parameters from a request's body. Throws ApiError (400) with the parameter, what was found and
// what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"

namespace serval::server {

// Parses the body as a JSON object. Throws ApiError (400) for anything else, for nesting deeper than
// api_limit::kBodyDepth, and for repeated keys and counts beyond the limits of vm/base/json_file.h.
nlohmann::json parse_body(const std::string& body);

// Reads from `object`, which must outlive it. A parameter that is null counts as absent.
class BodyFields {
 public:
  // `prefix` precedes parameter names in messages, such as "stream_options."; empty at the top level.
  explicit BodyFields(const nlohmann::json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  const nlohmann::json* find(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most) const;
  std::optional<double> number(const char* name) const;  // finite
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::string> text(const char* name, size_t most_bytes) const;
  // A string or an array of strings.
  std::vector<std::string> texts(const char* name, size_t most, size_t most_bytes) const;
  // The same; refuses empty strings.
  std::vector<std::string> filled_texts(const char* name, size_t most, size_t most_bytes) const;
  // An array of token ids. Does not check them against the vocabulary; encode() does.
  std::vector<int32_t> token_ids(const char* name, size_t most) const;
  // Refuses members that are not in `known`.
  void refuse_others(std::initializer_list<std::string_view> known) const;

  std::string full_name(const char* name) const { return prefix_ + name; }

 private:
  [[noreturn]] void fail(const char* name, const std::string& problem) const {
    refuse_parameter(full_name(name), problem);
  }
  const nlohmann::json& object_;
  std::string prefix_;
};

// The member of `of`, which must be an object. Messages call it `name`.
const nlohmann::json& object_in(const nlohmann::json& of, const char* member, const std::string& name);

// The elements of an array of token ids. Messages call the array `name`.
std::vector<int32_t> token_ids_of(const nlohmann::json& array, const std::string& name, size_t most);

// A value for messages: "an array", "an object", or its JSON, shortened if it is long.
std::string shown_value(const nlohmann::json& value);

}  // namespace serval::server
