// Byte-pair encoding of one word: `model` of tokenizer.json with type BPE.
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

// Immutable, thread-safe. Views the vocabulary it was made from, which must outlive it.
//
// A word begins as the tokens of its bytes; where the vocabulary is spelled in SentencePiece's way, as those
// of its characters, and where there is none of one, as those of its bytes ("byte_fallback").
class Bpe {
 public:
  // `merges` stand for those of the model.
  Bpe(const JsonField& model, const Vocabulary& vocabulary,
      std::optional<std::vector<BpeMerge>> merges = std::nullopt);

  // Appends the tokens of `word` (any bytes; of SentencePiece's way, valid UTF-8) to `*ids`, in O(n log n).
  // No merge and no whole word gives a token that the filter refuses. A byte that the vocabulary lacks
  // becomes `unk_token`, or nothing where there is none.
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
  bool ignore_merges_ = false;  // a word that is a token is that token, whatever the merges say
  bool fuse_unknown_ = false;
  std::int32_t unknown_ = kNone;
  std::array<std::int32_t, 256> byte_tokens_{};  // kNone where the vocabulary lacks the byte
  std::vector<Merge> merges_;                    // sorted by (left, right)
  std::vector<std::uint32_t> first_with_left_;   // by token: where in merges_ those with it on the left begin
};

}  // namespace serval
