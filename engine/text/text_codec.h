// Converts between text and token ids. Independent of the kind of the model's vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

// Decodes tokens one at a time. The results of push() and flush(), joined, are the text of all tokens.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // Returns whole characters only; bytes of an incomplete character wait for the next token.
  virtual std::string push(int32_t token) = 0;
  // Call after the last token. Returns U+FFFD for an incomplete character.
  virtual std::string flush() = 0;
};

// How to treat special (control) tokens such as "<|eot_id|>". kWritten: encoding turns their text into the
// token, and decoding writes the token's text. kNot: encoding treats their text like any other text, and
// decoding leaves the tokens out.
enum class SpecialTokens { kNot, kWritten };

struct EncodeOptions {
  SpecialTokens special = SpecialTokens::kWritten;
  bool add_special_tokens = true;  // adds the model's tokens around a text, such as BOS
};

// Thread-safe: all functions are const.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // `text` is UTF-8; other bytes become U+FFFD.
  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const = 0;
  // All ids must be in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids, SpecialTokens special) const = 0;
  virtual std::unique_ptr<TextStream> stream(SpecialTokens special) const = 0;
  // The bytes that a token adds to the text of such a stream; they may begin or end inside a character.
  // Returns nullopt for ids without a token, and for special tokens with SpecialTokens::kNot.
  virtual std::optional<std::string> token_bytes(int32_t id, SpecialTokens special) const = 0;
};

// A codec for models without a tokenizer (random weights): token i < 256 is byte i; the text of any other
// token is its number, as in "<12345>". Has no BOS and no special tokens.
std::unique_ptr<TextCodec> make_byte_codec(int32_t vocab_size);

}  // namespace serval
