// The list of all parameters of /v1/completions and /v1/chat/completions. docs/api.md is generated from it,
// and names that are not in it are refused.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace serval::server {

enum class TextPath { kCompletions, kChat, kResponses, kMessages, kEmbeddings };

struct Parameter {
  std::string_view name;
  bool completions = false;  // allowed in /v1/completions
  bool chat = false;         // allowed in /v1/chat/completions
  std::string_view type;
  std::string fallback;  // in words
  std::string limit;     // in words; empty: none
  std::string_view meaning;
};

// In the order of docs/api.md.
std::span<const Parameter> parameters();
// The tables of docs/api.md: the parameters, then the members for which has_no_effect() is true.
std::string parameter_table();

// True if a member is null or requests only what happens anyway ("tools": [], "store": false).
bool has_no_effect(TextPath path, std::string_view name, const nlohmann::json& value);

// Throws ApiError (400) for the first member of `body` that is not a parameter of `path` (kCompletions or
// kChat), unless has_no_effect().
void refuse_unsupported(const nlohmann::json& body, TextPath path);

}  // namespace serval::server
