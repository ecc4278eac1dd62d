// One line about drafts (EngineOptions::speculation).
#pragma once

#include <string>

#include "serval/engine.h"

namespace serval::cli {

// Mean number of tokens that a pass with drafts gives a sequence; 1 without such a pass.
double acceptance_length(const DraftStats& drafts);

// "drafts: 420 tokens in 84 passes, 61.2 % accepted; 4.06 tokens a pass with drafts".
std::string draft_line(const DraftStats& drafts);

}  // namespace serval::cli
