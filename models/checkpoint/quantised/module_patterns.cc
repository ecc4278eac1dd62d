#include "models/checkpoint/quantised/module_patterns.h"

#include <algorithm>

#include "fmt/format.h"

namespace serval {
namespace {

using nlohmann::json;

constexpr std::string_view kRegexPrefix = "re:";

// Takes time proportional to the product of the lengths.
bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t at = 0, in_pattern = 0;
  size_t star = std::string_view::npos, star_at = 0;  // the last * and where its text ends so far
  while (at < text.size()) {
    if (in_pattern < pattern.size() && (pattern[in_pattern] == '?' || pattern[in_pattern] == text[at]) &&
        pattern[in_pattern] != '*') {
      ++in_pattern, ++at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      star_at = at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

bool is_part(std::string_view part, std::string_view name) {
  if (part.empty()) return false;
  for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

}  // namespace

ModulePatterns::ModulePatterns(const JsonFields& fields, const char* key, PatternSyntax syntax)
    : syntax_(syntax), where_(fields.where(key)) {
  const json* list = fields.find(key);
  if (list == nullptr) return;
  if (!list->is_array()) fields.fail(key, fmt::format("found {}, expected a list of names", shown(*list)));
  if (list->size() > kMaxEntries)
    fields.fail(key, fmt::format("found {} names; limit: {}", list->size(), kMaxEntries));
  for (const json& entry : *list) {
    if (!entry.is_string()) fields.fail(key, fmt::format("found {}, expected a name", shown(entry)));
    const auto& text = entry.get_ref<const std::string&>();
    if (syntax == PatternSyntax::kNameOrRegex && text.starts_with(kRegexPrefix)) {
      const std::string pattern = text.substr(kRegexPrefix.size());
      if (regexes_.size() == kMaxRegexes)
        fields.fail(key, fmt::format("more than {} regular expressions", kMaxRegexes));
      regexes_.emplace(pattern,
                       std::make_shared<const Regex>(
                           pattern, where_, RegexBudget{.seconds = kRegexSeconds, .seconds_per_byte = 0}));
    } else {
      texts_.push_back(text);
    }
  }
}

bool ModulePatterns::names(std::string_view module) const {
  return std::ranges::any_of(texts_, [&](const std::string& text) {
    if (syntax_ == PatternSyntax::kPart) return is_part(text, module);
    return syntax_ == PatternSyntax::kGlob ? glob_matches(text, module) : text == module;
  });
}

const std::string* ModulePatterns::regex_that_matches(std::string_view module) const {
  for (const auto& [pattern, regex] : regexes_) {
    const std::vector<TextSpan> found = regex->find_all(module);
    if (!found.empty() && found.front().begin == 0) return &pattern;
  }
  return nullptr;
}

}  // namespace serval
