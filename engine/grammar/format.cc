#include "engine/grammar/format.h"

#include "fmt/format.h"

#include "engine/grammar/gbnf.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/regex.h"

namespace serval::grammar {

const char* name_of(FormatKind kind) {
  switch (kind) {
    case FormatKind::kJsonObject:
      return "json_object";
    case FormatKind::kJsonSchema:
      return "json_schema";
    case FormatKind::kRegex:
      return "regex";
    case FormatKind::kChoice:
      return "choice";
    case FormatKind::kGbnf:
      break;
  }
  return "grammar";
}

std::string key_of(const Format& format) {
  std::string key = fmt::format("{} {}", name_of(format.kind), format.text);
  for (const std::string& text : format.choices) key += fmt::format("{}:{}", text.size(), text);
  return key;
}

Grammar compile_format(const Format& format) {
  switch (format.kind) {
    case FormatKind::kJsonSchema:
      return compile_json_schema(format.text);
    case FormatKind::kRegex:
      return compile_regex(format.text);
    case FormatKind::kChoice:
      return compile_choice(format.choices);
    case FormatKind::kGbnf:
      return compile_gbnf(format.text);
    case FormatKind::kJsonObject:
      break;
  }
  return json_object_grammar();
}

}  // namespace serval::grammar
