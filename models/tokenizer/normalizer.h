// Changes text before it is encoded: `normalizer` of tokenizer.json, and the pre-tokenizer Metaspace, which
// changes text as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/json_field.h"

namespace serval {

// What SentencePiece writes for a space.
inline constexpr std::string_view kWrittenSpace = "\xE2\x96\x81";  // U+2581

// Immutable, thread-safe. Knows NFC, Prepend, Replace (of a string) and Sequence, as `tokenizers` defines
// them.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  explicit Normalizer(const JsonField& field) { add(field); }

  // `pre_tokenizer` of type Metaspace that does not cut: spaces are written as its replacement, and one is
  // put before the text, always or where the text begins what is encoded.
  void add_metaspace(const JsonField& field);

  bool changes_text() const { return !steps_.empty(); }

  // `text`, valid UTF-8, or its changed copy in `*storage`. `at_begin`: nothing is before it.
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
