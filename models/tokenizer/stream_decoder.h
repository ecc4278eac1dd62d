// Text of a sequence of tokens while they arrive.
#pragma once

#include <cstdint>
#include <string>

#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/utf8.h"

namespace serval {

// What push() and flush() return, joined, is Tokenizer::decode of all the ids, with the space that this
// leaves out at the beginning: the ids continue a text. Each return is valid UTF-8 on its own. For one
// sequence and one thread.
class StreamDecoder {
 public:
  StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens);

  std::string push(std::int32_t id);  // the text that is complete now, often empty inside a character
  std::string flush();  // at the end: U+FFFD for an unfinished character; then ready for another sequence

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  Utf8Stream stream_;
};

}  // namespace serval
