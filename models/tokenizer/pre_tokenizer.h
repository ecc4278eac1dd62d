// Cuts text into the pieces ("words") inside which BPE merges: `pre_tokenizer` of tokenizer.json.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/json_field.h"
#include "models/tokenizer/regex.h"

namespace serval {

// Immutable; split may run on several threads at once.
//
// Knows Split, ByteLevel, Digits, Punctuation and Sequence, as `tokenizers` defines them. ByteLevel must be
// there, once and last. Its rewriting of bytes as characters is left out: the pieces are bytes of the text
// itself.
class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonField& field);

  // Pieces of `text` in order, none empty. They view `text`, or a copy in `*storage` where a space was put
  // before one.
  std::vector<std::string_view> split(std::string_view text, std::deque<std::string>* storage) const;

 private:
  // What becomes of a match of the pattern, which separates: a piece of its own, nothing, one piece together
  // with the matches beside it, or a part of the text before or after it.
  enum class Behaviour { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };
  struct Step {
    std::optional<Regex> pattern;
    Behaviour behaviour = Behaviour::kIsolated;
    bool invert = false;        // matches and the text between them change places
    bool prefix_space = false;  // each piece that does not begin with a space gets one
  };
  struct Part {
    std::string_view text;
    bool is_match;
  };

  void add(const JsonField& field);
  void add_split(const JsonField& field);
  void add_byte_level(const JsonField& field);
  static Behaviour behaviour_of(const JsonField& field);
  static std::vector<Part> cut(std::string_view text, const Step& step);
  static void join(const std::vector<Part>& parts, Behaviour behaviour,
                   std::vector<std::string_view>* pieces);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace serval
