// Writes values as JSON.
#pragma once

#include <optional>

#include "models/jinja/evaluation.h"
#include "models/jinja/value.h"

namespace serval::jinja {

struct JsonStyle {
  bool ascii_only = false;
  bool sorted = false;
  std::optional<Text> indent;  // of each level; absent: everything on one line
  Text between = Text(", ");
  Text after_key = Text(": ");
};

// As Python's json.dumps.
Text to_json(Evaluation& evaluation, const Value& value, const JsonStyle& style);

}  // namespace serval::jinja
