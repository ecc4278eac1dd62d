// Byte-pair encoding of one word: tokenizer.json's "model" of type BPE.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/tokenizer/bpe_merge.h"
#include "models/tokenizer/json_field.h"
#include "models/tokenizer/vocabulary.h"

namespace serval {

// Immutable and thread-safe. `vocabulary` must outlive it.
//
// Merging starts from the tokens of the word's bytes. With SentencePiece's spelling it starts from the tokens
// of its characters, and from the bytes of characters that have no token ("byte_fallback").
class Bpe {
 public:
  // `merges` replace the merges of `model`.
  Bpe(const JsonField& model, const Vocabulary& vocabulary,
      std::optional<std::vector<BpeMerge>> merges = std::nullopt);

  // Appends the tokens of `word` to `*ids` in O(n log n). `word` may be any bytes; with SentencePiece's
  // spelling it must be valid UTF-8. No merge and no whole word gives a token that the filter refuses. A byte
  // that the vocabulary lacks becomes `unk_token`, or is dropped if there is none.
  void encode(std::string_view word, const TokenFilter& filter, std::vector<std::int32_t>* ids) const;

 private:
  static constexpr std::int32_t kNone = -1;
  using Merge = BpeMerge;
  class Word;

  void read_byte_tokens(const JsonField& model);
  void read_merges(const JsonField& list);
  void index_merges();
  Merge read_merge(const JsonField& list, std::size_t rank) const;
  const Merge* find_merge(std::int32_t left, std::int32_t right, const TokenFilter& filter) const;

  const Vocabulary& vocabulary_;
  bool ignore_merges_ = false;  // a word that is in the vocabulary becomes one token without merges
  bool fuse_unknown_ = false;
  std::int32_t unknown_ = kNone;
  std::array<std::int32_t, 256> byte_tokens_{};  // kNone if the vocabulary lacks the byte
  std::vector<Merge> merges_;                    // sorted by (left, right)
  std::vector<std::uint32_t> first_with_left_;   // [token]: index in merges_ of its first merge as `left`
};

}  // namespace serval
