#include "models/tokenizer/stream_decoder.h"

#include <utility>

namespace serval {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamDecoder::push(std::int32_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  return stream_.push(tokenizer_.token_bytes(id));
}

std::string StreamDecoder::flush() {
  return stream_.flush();
}

}  // namespace serval
