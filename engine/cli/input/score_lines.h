// The texts that `serval score` reads, one JSON object a line:
//   {"text": TEXT}                            scores all of the text
//   {"prompt": TEXT, "continuation": TEXT}    scores the continuation after the prompt
// with an optional "id", a text or a whole number, that the result repeats.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace serval::cli {

struct ScoreLine {
  std::string place;               // for messages: "FILE: line 3"
  std::string prompt = {};         // UTF-8; empty: the text has nothing before it
  std::string text = {};           // UTF-8, what is scored; not empty
  bool is_continuation = false;    // false: `text` stands alone, and may be longer than the context
  nlohmann::ordered_json id = {};  // null: none
};

// Lines of spaces are skipped. Throws Error(kUsage) for the first line that is not such an object, naming
// field and limit, and if there is no line.
std::vector<ScoreLine> parse_score_lines(const std::string& text, const std::string& file);

}  // namespace serval::cli
