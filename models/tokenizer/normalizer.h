// Changes text before encoding: tokenizer.json's "normalizer", and its pre-tokenizer Metaspace, which also
// changes text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/json_field.h"

namespace serval {

// SentencePiece's character for a space.
inline constexpr std::string_view kWrittenSpace = "\xE2\x96\x81";  // U+2581

// Immutable and thread-safe. Supports NFC, Prepend, Replace (of a string) and Sequence, as in `tokenizers`.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  explicit Normalizer(const JsonField& field) { add(field); }

  // Adds a pre-tokenizer of type Metaspace that does not split. It replaces each space. It also prepends the
  // replacement to every text ("always"), only to the first ("first") or to none ("never"), unless the text
  // starts with it already.
  void add_metaspace(const JsonField& field);

  bool changes_text() const { return !steps_.empty(); }

  // Returns `text`, which must be valid UTF-8, or a changed copy in `*storage`. `at_begin`: `text` starts the
  // encoded text.
  std::string_view apply(std::string_view text, bool at_begin, std::string* storage) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace, kPrependIfMissing, kPrependIfMissingAtBegin };
  struct Step {
    Kind kind;
    std::string content;
    std::string pattern;  // of kReplace
  };
  void add(const JsonField& field);

  std::vector<Step> steps_;
};

}  // namespace serval
