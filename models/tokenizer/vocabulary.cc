#include "models/tokenizer/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/normalizer.h"
#include "vm/base/json_file.h"

namespace serval {
namespace {

std::int32_t token_id(const JsonField& field) {
  return static_cast<std::int32_t>(field.integer(0, kMaxTokenId));
}

// "<0x0A>" is a byte; everything else is text.
std::string sentencepiece_bytes(std::string_view written) {
  constexpr std::string_view kPrefix = "<0x";
  constexpr std::size_t kLength = 6;
  unsigned byte = 0;
  if (written.size() == kLength && written.starts_with(kPrefix) && written.ends_with('>')) {
    const char* digits = written.data() + kPrefix.size();
    const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
    if (error == std::errc() && end == digits + 2) return std::string(1, static_cast<char>(byte));
  }
  std::string text;
  for (std::size_t at = 0; at < written.size();) {
    const bool is_space = written.substr(at).starts_with(kWrittenSpace);
    text += is_space ? ' ' : written[at];
    at += is_space ? kWrittenSpace.size() : 1;
  }
  return text;
}

AddedToken read_added_token(const JsonField& field) {
  AddedToken token;
  token.content = field.at("content").text();
  token.id = token_id(field.at("id"));
  token.special = field.flag("special", false);
  token.single_word = field.flag("single_word", false);
  token.lstrip = field.flag("lstrip", false);
  token.rstrip = field.flag("rstrip", false);
  token.normalized = field.flag("normalized", !token.special);
  const std::size_t bytes = token.content.size();
  if (bytes == 0 || bytes > kMaxAddedTokenBytes) {
    field.at("content").fail(fmt::format("{} bytes; limit: 1 to {}", bytes, kMaxAddedTokenBytes));
  }
  return token;
}

}  // namespace

Vocabulary::Vocabulary(const JsonField& tokenizer, TokenSpelling spelling) : spelling_(spelling) {
  read_model(tokenizer.at("model").at("vocab"));
  if (const auto list = tokenizer.find("added_tokens")) read_added(*list);
}

Vocabulary::Token& Vocabulary::claim(std::int32_t id, const JsonField& field) {
  if (id >= size()) tokens_.resize(id + 1);
  Token& token = tokens_[id];
  if (token.exists) field.fail(fmt::format("a second token with id {}", id));
  token.exists = true;
  return token;
}

void Vocabulary::read_model(const JsonField& vocab) {
  if (vocab.object().empty()) vocab.fail("has no tokens");
  for (const auto& [key, value] : vocab.object().items()) {
    // Builds the member's path only for an error: there are hundreds of thousands of members.
    const auto member = [&vocab, &written = key] { return vocab.at(written); };
    if (!value.is_number_integer() || value < 0 || value > kMaxTokenId) token_id(member());
    const std::int32_t id = value.get<std::int32_t>();
    if (has(id)) member().fail(fmt::format("a second token with id {}", id));
    Token& token = claim(id, vocab);
    if (spelling_ == TokenSpelling::kSentencePiece) {
      token.bytes = sentencepiece_bytes(key);
      words_.push_back({key, id});
    } else if (auto bytes = byte_level_decode(key)) {
      token.bytes = *bytes;
      words_.push_back({*std::move(bytes), id});
    } else {
      token.bytes = key;
      foreign_.emplace(key, id);
    }
  }
  std::sort(words_.begin(), words_.end(), [](const Word& a, const Word& b) { return a.bytes < b.bytes; });
}

void Vocabulary::read_added(const JsonField& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonField field = list.element(i);
    AddedToken token = read_added_token(field);
    const auto in_model = find_in_model(token.content);
    if (in_model && *in_model != token.id) {
      field.fail(fmt::format("id {}, but model.vocab gives {} the id {}", token.id, in_quotes(token.content),
                             *in_model));
    }
    if (!added_contents_.emplace(token.content, token.id).second) {
      field.fail(fmt::format("{} is listed twice", in_quotes(token.content)));
    }
    Token& entry = in_model ? tokens_[token.id] : claim(token.id, field);
    entry.bytes = token.content;
    entry.special = token.special;
    added_.push_back(std::move(token));
  }
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  return in_range(id) ? std::string_view(tokens_[id].bytes) : std::string_view();
}

std::optional<std::int32_t> Vocabulary::find(std::string_view written) const {
  const auto added = added_contents_.find(written);
  return added != added_contents_.end() ? added->second : find_in_model(written);
}

std::optional<std::int32_t> Vocabulary::find_in_model(std::string_view written) const {
  if (spelling_ == TokenSpelling::kSentencePiece) return find_word(written);
  if (const auto bytes = byte_level_decode(written)) return find_word(*bytes);
  const auto foreign = foreign_.find(written);
  if (foreign == foreign_.end()) return std::nullopt;
  return foreign->second;
}

std::optional<std::int32_t> Vocabulary::find_word(std::string_view bytes) const {
  const auto word = std::lower_bound(words_.begin(), words_.end(), bytes,
                                     [](const Word& a, std::string_view b) { return a.bytes < b; });
  if (word == words_.end() || word->bytes != bytes) return std::nullopt;
  return word->id;
}

}  // namespace serval
