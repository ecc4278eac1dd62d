// The tokens of a tokenizer.json: "model.vocab" and "added_tokens".
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/json_field.h"

namespace serval {

inline constexpr std::int32_t kMaxTokenId = (1 << 20) - 1;   // tables are indexed by id
inline constexpr std::size_t kMaxAddedTokenBytes = 1 << 10;  // limits the work at each byte of a text

// A token that is searched in the text before all other steps of encoding.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;      // a control token: decode() can skip it, and untrusted text cannot contain it
  bool single_word = false;  // matches only if no word character is next to it
  bool lstrip = false;       // includes the white space on its left
  bool rstrip = false;       // includes the white space on its right
  bool normalized = false;   // searched after the tokens that are not `normalized`
};

// Tokens that encoding must not produce. Their text is encoded like any other text.
struct TokenFilter {
  bool special = false;                  // refuses all special tokens
  std::span<const std::int32_t> others;  // more refused tokens

  bool refuses(std::int32_t id, bool is_special) const {
    return (special && is_special) || std::find(others.begin(), others.end(), id) != others.end();
  }
};

// How model.vocab writes tokens: each byte as one of 256 characters ("Ġthe"; byte_level.h), or text with
// U+2581 for a space and "<0x0A>" for a byte (SentencePiece).
enum class TokenSpelling { kByteLevel, kSentencePiece };

// Immutable.
class Vocabulary {
 public:
  Vocabulary(const JsonField& tokenizer, TokenSpelling spelling);

  TokenSpelling spelling() const { return spelling_; }

  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }  // largest id + 1
  bool has(std::int32_t id) const { return in_range(id) && tokens_[id].exists; }
  bool is_special(std::int32_t id) const { return in_range(id) && tokens_[id].special; }
  // The bytes of the token; empty if there is no such token.
  std::string_view bytes(std::int32_t id) const;

  // Finds a token by its spelling in tokenizer.json: an added token's content, or a key of model.vocab
  // ("Ġthe").
  std::optional<std::int32_t> find(std::string_view written) const;
  // As find(), but only in model.vocab.
  std::optional<std::int32_t> find_in_model(std::string_view written) const;
  // Finds a token of model.vocab by its bytes (" the"); with SentencePiece's spelling, by its key.
  std::optional<std::int32_t> find_word(std::string_view bytes) const;

  const std::vector<AddedToken>& added_tokens() const { return added_; }

 private:
  struct Token {
    std::string bytes;
    bool exists = false;
    bool special = false;
  };
  struct Word {
    std::string bytes;
    std::int32_t id;
  };
  using Contents = std::map<std::string, std::int32_t, std::less<>>;

  bool in_range(std::int32_t id) const { return id >= 0 && id < size(); }
  void read_model(const JsonField& vocab);
  void read_added(const JsonField& list);
  Token& claim(std::int32_t id, const JsonField& field);

  TokenSpelling spelling_;
  std::vector<Token> tokens_;  // by id; some do not exist
  std::vector<Word> words_;    // sorted by bytes
  Contents foreign_;           // keys of model.vocab with characters outside the byte alphabet
  Contents added_contents_;
  std::vector<AddedToken> added_;
};

}  // namespace serval
