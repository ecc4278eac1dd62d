#include "engine/server/service/prompt_tokens.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/server/service/characters.h"
#include "models/tokenizer/utf8.h"

namespace serval::server {
namespace {

LikelyToken likely(const Engine& engine, int32_t id, float log_probability) {
  return {.id = id, .bytes = engine.token_bytes(id, true).value_or(""), .log_probability = log_probability};
}

// Walks through a text, token by token.
class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text) : rest_(text) {}

  // The number of whole characters before the token. A control token may be missing in the text; so may the
  // space that some tokenizers add at the beginning. Where a tokenizer has changed the text, tokens count as
  // long as they are.
  size_t next(std::string_view bytes, bool is_control) {
    const size_t place = characters_;
    if (!rest_.starts_with(bytes)) {
      if (is_control) return place;
      if (bytes.starts_with(' ') && rest_.starts_with(bytes.substr(1))) bytes.remove_prefix(1);
    }
    const std::string_view passed = rest_.substr(0, bytes.size());
    characters_ += count_characters(whole_.push(passed));
    rest_.remove_prefix(passed.size());
    return place;
  }

 private:
  std::string_view rest_;
  Utf8Stream whole_;       // whole characters of what was passed
  size_t characters_ = 0;  // their number
};

}  // namespace

std::vector<TokenLogprob> tokens_of_prompt(const Engine& engine, std::span<const int32_t> ids,
                                           std::span<const PromptLogprob> scores, std::string_view text,
                                           uint32_t likeliest) {
  std::vector<TokenLogprob> tokens;
  tokens.reserve(ids.size());
  TextPlaces places(text);
  for (size_t i = 0; i < ids.size(); ++i) {
    const PromptLogprob* score = i == 0 ? nullptr : &scores[i - 1];
    TokenLogprob token{.token = likely(engine, ids[i], score == nullptr ? 0 : score->log_probability),
                       .is_scored = score != nullptr};
    token.text_offset = places.next(token.token.bytes, !engine.token_bytes(ids[i], false).has_value());
    if (score != nullptr) {
      const size_t count = std::min<size_t>(likeliest, score->top_logprobs.size());
      for (const TopLogprob& top : std::span(score->top_logprobs).first(count))
        token.likeliest.push_back(likely(engine, top.token, top.log_probability));
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace serval::server
