// The tokens of a tokenizer.json: `model.vocab` and `added_tokens`.
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

inline constexpr std::int32_t kMaxTokenId = (1 << 20) - 1;  // tables are as long as the largest id
inline constexpr std::size_t kMaxAddedTokenBytes = 1
                                                   << 10;  // bounds what a match costs at each byte of a text

// A token that is cut out of the text before anything else happens to it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;      // a control token, not text: hidden by decode, refused in untrusted text
  bool single_word = false;  // only where no letter, digit or mark is next to it
  bool lstrip = false;       // takes the white space on its left along
  bool rstrip = false;       // and on its right
  bool normalized = false;   // looked for in what the other added tokens left over
};

// Which tokens encoding must not give: then the text they are written with is encoded like any other.
struct TokenFilter {
  bool special = false;                  // all special tokens,
  std::span<const std::int32_t> others;  // and these few

  bool refuses(std::int32_t id, bool is_special) const {
    return (special && is_special) || std::find(others.begin(), others.end(), id) != others.end();
  }
};

// How model.vocab writes what tokens stand for: bytes as characters of an alphabet of 256 ("Ġthe"), or text
// with U+2581 for a space, and "<0x0A>" for a byte (SentencePiece's way).
enum class TokenSpelling { kByteLevel, kSentencePiece };

// Immutable.
class Vocabulary {
 public:
  Vocabulary(const JsonField& tokenizer, TokenSpelling spelling);

  TokenSpelling spelling() const { return spelling_; }

  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }  // largest id + 1
  bool has(std::int32_t id) const { return in_range(id) && tokens_[id].exists; }
  bool is_special(std::int32_t id) const { return in_range(id) && tokens_[id].special; }
  // What the token stands for; empty where there is no such token.
  std::string_view bytes(std::int32_t id) const;

  // By what tokenizer.json writes: an added token's content, or a key of model.vocab ("Ġthe").
  std::optional<std::int32_t> find(std::string_view written) const;
  // The same, but only in model.vocab.
  std::optional<std::int32_t> find_in_model(std::string_view written) const;
  // By the bytes that a key of model.vocab stands for (" the"); of SentencePiece's spelling by the key
  // itself.
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
  std::vector<Token> tokens_;  // by id, with holes
  std::vector<Word> words_;    // sorted by bytes
  Contents foreign_;           // keys of model.vocab with characters outside the byte alphabet
  Contents added_contents_;
  std::vector<AddedToken> added_;
};

}  // namespace serval
