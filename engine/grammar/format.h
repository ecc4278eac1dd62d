// What an answer's text must be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

enum class FormatKind : uint8_t { kJsonObject, kJsonSchema, kRegex, kChoice, kGbnf };

struct Format {
  FormatKind kind = FormatKind::kJsonObject;
  std::string text = {};                  // the schema, expression or grammar
  std::vector<std::string> choices = {};  // kChoice
};

// The name of the Request's field, which begins every message about the format: "json_schema".
const char* name_of(FormatKind kind);

// Differs for different formats.
std::string key_of(const Format& format);

// Throws Error(kUsage) as compile_json_schema(), compile_regex(), compile_choice() and compile_gbnf() do.
Grammar compile_format(const Format& format);

}  // namespace serval::grammar
