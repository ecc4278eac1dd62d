// Splits text into the pieces ("words") that BPE encodes separately: tokenizer.json's "pre_tokenizer".
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/json_field.h"
#include "models/tokenizer/regex.h"

namespace serval {

// Immutable and thread-safe.
//
// Supports Split, ByteLevel, Digits, Punctuation and Sequence, as in `tokenizers`. ByteLevel is required,
// once and as the last step. Unlike in `tokenizers`, it does not rewrite bytes as characters: pieces are
// bytes of the text.
class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonField& field);

  // The pieces of `text` in order, none empty. They are views of `text`, or of copies in `*storage` if a
  // space was added.
  std::vector<std::string_view> split(std::string_view text, std::deque<std::string>* storage) const;

 private:
  // Treatment of a match of the pattern: a separate piece, removed, one piece together with adjacent matches,
  // or part of the piece before or after it.
  enum class Behaviour { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };
  struct Step {
    std::optional<Regex> pattern;
    Behaviour behaviour = Behaviour::kIsolated;
    bool invert = false;        // the text between matches counts as the matches
    bool prefix_space = false;  // adds a space before each piece that does not start with one
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
