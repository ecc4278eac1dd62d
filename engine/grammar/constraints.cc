#include "engine/grammar/constraints.h"

#include <algorithm>

#include "fmt/format.h"

namespace serval::grammar {

namespace {

std::string key_of(const AnswerRules& rules) {
  const ToolRules& tools = rules.tools;
  std::string key =
      fmt::format("answer {} {} {} {} {}", static_cast<int>(rules.reasoning), rules.ends_reasoning,
                  static_cast<int>(tools.format), static_cast<int>(tools.choice), tools.parallel);
  for (const ToolFunction& function : tools.functions)
    key += fmt::format(" {} {}:{}{}:{}", function.strict, function.name.size(), function.name,
                       function.parameters.size(), function.parameters);
  return key;
}

}  // namespace

std::shared_ptr<const TokenTrie> Constraints::trie(bool with_markers) {
  const std::lock_guard lock(trie_mutex_);
  if (with_markers && markers_ != MarkerTokens()) {
    if (!marker_trie_) {
      marker_trie_ = std::make_shared<const TokenTrie>(
          vocab_, [this](int32_t token) { return bytes_with_markers(token); });
    }
    return marker_trie_;
  }
  if (!trie_) trie_ = std::make_shared<const TokenTrie>(vocab_, bytes_of_);
  return trie_;
}

std::optional<std::string> Constraints::bytes_with_markers(int32_t token) const {
  if (const auto marker = markers_.marker_of(token))
    return std::string(1, static_cast<char>(kFirstMarkerByte + *marker));
  std::optional<std::string> bytes = bytes_of_(token);
  const auto is_marker_byte = [](char c) { return static_cast<uint8_t>(c) >= kFirstMarkerByte; };
  return bytes && std::ranges::any_of(*bytes, is_marker_byte) ? std::nullopt : bytes;
}

std::shared_ptr<Constraint> Constraints::find_or_make(const std::string& key, bool with_markers,
                                                      const std::function<Grammar()>& grammar) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(kept_, key, [](const auto& entry) { return entry.first; });
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
      return known->second;
    }
  }
  auto constraint = std::make_shared<Constraint>(grammar(), trie(with_markers));
  constraint->precompute_masks();
  const std::lock_guard lock(mutex_);
  kept_.emplace_front(key, constraint);
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return constraint;
}

std::shared_ptr<Constraint> Constraints::of_format(const Format& format) {
  return find_or_make(key_of(format), /*with_markers=*/false, [&] { return compile_format(format); });
}

std::shared_ptr<Constraint> Constraints::of_answer(AnswerRules rules, const std::optional<Format>& content) {
  rules.markers = markers_;
  const std::string key = key_of(rules) + (content ? " with " + key_of(*content) : "");
  return find_or_make(key, /*with_markers=*/true, [&] {
    return answer_grammar(rules, content ? std::optional(compile_format(*content)) : std::nullopt);
  });
}

}  // namespace serval::grammar
