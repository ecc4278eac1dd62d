// Decodes a sequence of tokens incrementally.
#pragma once

#include <cstdint>
#include <string>

#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/utf8.h"

namespace serval {

// The results of push() and flush(), joined, equal Tokenizer::decode() of all ids, except that a space at the
// beginning is kept: the ids continue a text. Each result is valid UTF-8. Use one object for each sequence,
// on one thread at a time.
class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens);

  std::string push(std::int32_t id);  // newly completed text; empty inside a character
  std::string flush();  // call at the end: U+FFFD for an incomplete character; the object can then be reused

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  Utf8Stream stream_;
};

}  // namespace serval
