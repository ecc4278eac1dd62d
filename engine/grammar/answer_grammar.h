// Grammars of whole answers: reasoning, then text or calls of tools.
#pragma once

#include <optional>

#include "engine/grammar/grammar.h"
#include "engine/grammar/markers.h"
#include "engine/include/serval/chat.h"

namespace serval::grammar {

struct AnswerRules {
  ToolRules tools = {};
  Reasoning reasoning = Reasoning::kNone;
  MarkerTokens markers = {};
  bool ends_reasoning = false;  // the text continues with </think>, in the middle of reasoning
};

// `content`: the grammar of an answer without calls; nullopt: any text. A call is constrained to its format
// and to the function's schema from its opening marker on; Llama's calls without a marker from {"name" on.
// In reasoning, only </think> has a meaning. Throws Error(kUsage), "tools: function NAME: …", for a schema
// that is not supported or allows no object, if a call must be valid under it.
Grammar answer_grammar(const AnswerRules& rules, const std::optional<Grammar>& content);

}  // namespace serval::grammar
