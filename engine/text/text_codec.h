// Between text and token ids, whatever the model's vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// Text of tokens that come one at a time. What push() and flush() return, joined, is the text of all of them.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // Whole characters only: bytes of an unfinished one wait for the next token.
  virtual std::string push(int32_t token) = 0;
  // The tokens have ended: U+FFFD where a character was left unfinished.
  virtual std::string flush() = 0;
};

// Of special (control) tokens, such as "<|eot_id|>": whether one that is written in a text means the token,
// and whether a token is written in a text. Where not, the first is a text like any other, and the second is
// left out.
enum class SpecialTokens { kNot, kWritten };

struct EncodeOptions {
  SpecialTokens special = SpecialTokens::kWritten;
  bool add_special_tokens = true;  // those that the model wants around a text, such as BOS
};

// Thread-safe: all functions are const.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // `text` is UTF-8; other bytes become U+FFFD.
  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const = 0;
  // Every id must be in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids, SpecialTokens special) const = 0;
  virtual std::unique_ptr<TextStream> stream(SpecialTokens special) const = 0;
  // What a token of the vocabulary adds to the text of such a stream, which need not be whole characters;
  // none for ids without a token, and for special tokens that are not written.
  virtual std::optional<std::string> token_bytes(int32_t id, SpecialTokens special) const = 0;
};

// For models without a tokenizer, which are those with random weights: token i < 256 is byte i, any other
// reads as its number, "<12345>". No BOS, no special tokens.
std::unique_ptr<TextCodec> make_byte_codec(int32_t vocab_size);

}  // namespace serval
