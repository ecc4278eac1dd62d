// Writes certain control tokens into a text that leaves the others out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/text_codec.h"

namespace serval {

struct ShownToken {
  int32_t id = 0;
  std::string text;
};

// `stream`, with the text of `shown` where these tokens are pushed.
std::unique_ptr<TextStream> with_shown_tokens(std::unique_ptr<TextStream> stream,
                                              std::vector<ShownToken> shown);

}  // namespace serval
