#include "models/tokenizer/added_tokens.h"

#include <algorithm>

#include "models/tokenizer/unicode.h"

namespace serval {
namespace {

std::size_t leading_space(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty() && is_white_space(first_character(rest)))
    rest.remove_prefix(first_character(rest).size());
  return text.size() - rest.size();
}

std::size_t trailing_space(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty() && is_white_space(last_character(rest)))
    rest.remove_suffix(last_character(rest).size());
  return text.size() - rest.size();
}

bool is_single_word(std::string_view before, std::string_view after) {
  const bool word_before = !before.empty() && is_word_character(last_character(before));
  const bool word_after = !after.empty() && is_word_character(first_character(after));
  return !word_before && !word_after;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) (token.normalized ? normalized_ : raw_).add(token);
  raw_.sort();
  normalized_.sort();
}

TrustedText::Overlap TrustedText::overlap_with(std::string_view piece) const {
  if (spans_.empty()) return Overlap::kNone;
  const auto begin = static_cast<std::size_t>(piece.data() - text_.data()), end = begin + piece.size();
  const auto next = std::partition_point(spans_.begin(), spans_.end(),
                                         [begin](const TextSpan& span) { return span.end <= begin; });
  if (next == spans_.end() || next->begin >= end) return Overlap::kNone;
  return next->begin <= begin && end <= next->end ? Overlap::kAll : Overlap::kPart;
}

std::vector<TextSegment> AddedTokenFinder::segment(std::string_view text, const TokenFilter& filter,
                                                   const TrustedText& trusted) const {
  std::vector<TextSegment> first;
  raw_.segment(text, filter, trusted, &first);
  std::vector<TextSegment> segments;
  for (const TextSegment& piece : first) {
    if (piece.token) {
      segments.push_back(piece);
    } else {
      normalized_.segment(piece.text, filter, trusted, &segments);
    }
  }
  return segments;
}

void AddedTokenFinder::Set::sort() {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken* a, const AddedToken* b) { return a->content < b->content; });
}

// Narrows the sorted tokens, byte by byte, to those with the same prefix as the text.
const AddedToken* AddedTokenFinder::Set::longest_at(std::string_view rest) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (std::size_t depth = 0; low != high && depth < rest.size(); ++depth) {
    // -1 after the end of the content: shorter tokens sort before longer ones.
    const auto byte_of = [depth](const AddedToken* token) {
      return depth < token->content.size() ? static_cast<unsigned char>(token->content[depth]) : -1;
    };
    const int byte = static_cast<unsigned char>(rest[depth]);
    low = std::partition_point(low, high, [&](const AddedToken* t) { return byte_of(t) < byte; });
    high = std::partition_point(low, high, [&](const AddedToken* t) { return byte_of(t) == byte; });
    if (low != high && (*low)->content.size() == depth + 1) longest = *low;
  }
  return longest;
}

// Follows AddedVocabulary::find_matches of `tokenizers`: no other match may start inside a rejected match.
void AddedTokenFinder::Set::segment(std::string_view text, const TokenFilter& filter,
                                    const TrustedText& trusted, std::vector<TextSegment>* out) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    const TrustedText::Overlap overlap = trusted.overlap_with(text.substr(begin, token->content.size()));
    if (overlap == TrustedText::Overlap::kPart) {
      ++at;
      continue;
    }
    at += token->content.size();
    const std::string_view after = text.substr(at);
    if (overlap == TrustedText::Overlap::kNone && filter.refuses(token->id, token->special)) continue;
    if (token->single_word && !is_single_word(text.substr(0, begin), after)) continue;
    std::string_view before = text.substr(done, begin - done);
    if (token->lstrip) before.remove_suffix(trailing_space(before));
    if (token->rstrip) at += leading_space(after);
    if (!before.empty()) out->push_back({before, std::nullopt});
    out->push_back({text.substr(begin, token->content.size()), token->id});
    done = at;
  }
  if (done < text.size()) out->push_back({text.substr(done), std::nullopt});
}

}  // namespace serval
