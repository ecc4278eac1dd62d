// The tokens that encoding adds before and after a text: tokenizer.json's "post_processor".
#pragma once

#include <cstdint>
#include <vector>

#include "models/tokenizer/json_field.h"
#include "models/tokenizer/vocabulary.h"

namespace serval {

// Immutable. Supports TemplateProcessing (for one text, `single`), ByteLevel (which only changes offsets) and
// Sequence.
class PostProcessor {
 public:
  PostProcessor() = default;  // adds nothing
  PostProcessor(const JsonField& field, const Vocabulary& vocabulary);

  const std::vector<std::int32_t>& prefix() const { return prefix_; }
  const std::vector<std::int32_t>& suffix() const { return suffix_; }

 private:
  void add(const JsonField& field, const Vocabulary& vocabulary);
  void add_template(const JsonField& field, const Vocabulary& vocabulary);

  std::vector<std::int32_t> prefix_, suffix_;
};

}  // namespace serval
