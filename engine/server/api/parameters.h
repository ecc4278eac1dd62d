// Every parameter that a request of text may have, once: what is refused by name and docs/api.md follow from
// it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace serval::server {

enum class TextPath { kCompletions, kChat, kResponses };

struct Parameter {
  std::string_view name;
  bool completions = false;  // of /v1/completions
  bool chat = false;         // of /v1/chat/completions
  std::string_view type;
  std::string fallback;  // in words
  std::string limit;     // in words; empty: none
  std::string_view meaning;
};

// In the order of the page.
std::span<const Parameter> parameters();
// The rows of docs/api.md's table, and below it what asks_for_nothing().
std::string parameter_table();

// Whether a member asks for what happens anyway ("tools": [], "store": false), or is null.
bool asks_for_nothing(TextPath path, std::string_view name, const nlohmann::json& value);

// Refuses, by name, the first member of `body` that is no parameter of `path`, a completion's or a chat's,
// and asks for something.
void refuse_unsupported(const nlohmann::json& body, TextPath path);

}  // namespace serval::server
