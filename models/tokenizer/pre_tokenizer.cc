#include "models/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "vm/base/json_file.h"

namespace serval {
namespace {

// The pattern of ByteLevel with use_regex (openai/gpt-2, encoder.py).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigitPattern = R"(\p{N})";
// `tokenizers` uses the punctuation of Unicode 8 and all of ASCII's. So this adds two characters whose
// category has changed since then, and removes newer ones.
constexpr std::string_view kPunctuationPattern =
    R"([\p{P}$+<=>^`|~\x{166D}\x{111C9}&&[^)"
    R"(\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}-\x{1B7E}\x{2E43}-\x{2E4F}\x{2E52}-\x{2E5D})"
    R"(\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F}\x{1145A}-\x{1145B})"
    R"(\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946}\x{119E2})"
    R"(\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11C41}-\x{11C45})"
    R"(\x{11C70}-\x{11C71}\x{11EF7}-\x{11EF8}\x{11FFF}\x{12FF1}-\x{12FF2}\x{16E97}-\x{16E9A})"
    R"(\x{16FE2}\x{1E95E}-\x{1E95F})"
    "]]";

std::string literal_pattern(std::string_view text) {
  constexpr std::string_view kMeta = R"(\^$.[]|()?*+{}-#&~)";
  std::string pattern;
  for (const char c : text) {
    if (kMeta.find(c) != kMeta.npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// One view of `a` and `b`, which must be adjacent in the same text.
std::string_view joined(std::string_view a, std::string_view b) {
  return {a.data(), a.size() + b.size()};
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonField& field) {
  add(field);
  if (!byte_level_) field.fail("has no ByteLevel; only byte-level BPE is supported");
}

void PreTokenizer::add(const JsonField& field) {
  const JsonField type = field.at("type");
  if (byte_level_) field.fail("ByteLevel must be the last");
  const std::string& name = type.text();
  if (name == "Sequence") {
    const JsonField list = field.at("pretokenizers");
    for (std::size_t i = 0; i < list.size(); ++i) add(list.element(i));
  } else if (name == "Split") {
    add_split(field);
  } else if (name == "ByteLevel") {
    add_byte_level(field);
  } else if (name == "Digits") {
    const bool each = field.flag("individual_digits", false);
    steps_.push_back(
        {Regex(kDigitPattern, field.where()), each ? Behaviour::kIsolated : Behaviour::kContiguous});
  } else if (name == "Punctuation") {
    const auto behaviour = field.find("behavior");
    steps_.push_back({Regex(kPunctuationPattern, field.where()),
                      behaviour ? behaviour_of(*behaviour) : Behaviour::kIsolated});
  } else {
    type.fail(
        fmt::format("{} is not supported; supported: Sequence, Split, ByteLevel, Digits and Punctuation",
                    in_quotes(name)));
  }
}

void PreTokenizer::add_split(const JsonField& field) {
  const JsonField pattern = field.at("pattern");
  const auto regex = pattern.find("Regex");
  const std::string expression = regex ? regex->text() : literal_pattern(pattern.at("String").text());
  Step step;
  step.pattern.emplace(expression, pattern.where());
  step.behaviour = behaviour_of(field.at("behavior"));
  step.invert = field.flag("invert", false);
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_byte_level(const JsonField& field) {
  byte_level_ = true;
  Step step;
  step.prefix_space = field.flag("add_prefix_space", true);
  if (field.flag("use_regex", true)) step.pattern.emplace(kGpt2Pattern, field.where());
  steps_.push_back(std::move(step));
}

PreTokenizer::Behaviour PreTokenizer::behaviour_of(const JsonField& field) {
  constexpr std::pair<std::string_view, Behaviour> kNames[] = {
      {"Isolated", Behaviour::kIsolated},
      {"Removed", Behaviour::kRemoved},
      {"Contiguous", Behaviour::kContiguous},
      {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
      {"MergedWithNext", Behaviour::kMergedWithNext}};
  for (const auto& [name, behaviour] : kNames) {
    if (field.text() == name) return behaviour;
  }
  field.fail(fmt::format("{} is none of Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext",
                         in_quotes(field.text())));
}

std::vector<PreTokenizer::Part> PreTokenizer::cut(std::string_view text, const Step& step) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const TextSpan& match : step.pattern->find_all(text)) {
    if (match.begin > done) parts.push_back({text.substr(done, match.begin - done), step.invert});
    parts.push_back({text.substr(match.begin, match.end - match.begin), !step.invert});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), step.invert});
  return parts;
}

// Joins parts as NormalizedString::split of `tokenizers`. Empty matches count as parts; empty pieces are
// dropped.
void PreTokenizer::join(const std::vector<Part>& parts, Behaviour behaviour,
                        std::vector<std::string_view>* pieces) {
  std::vector<std::string_view> out;
  bool was_match = false;
  const auto fold = [&](const Part& part, bool joins, auto&& join_with) {
    if (joins && !out.empty()) {
      out.back() = join_with(out.back());
    } else {
      out.push_back(part.text);
    }
    was_match = part.is_match;
  };
  if (behaviour == Behaviour::kMergedWithNext) {
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      fold(*part, part->is_match && !was_match,
           [&](std::string_view next) { return joined(part->text, next); });
    }
    std::reverse(out.begin(), out.end());
  } else {
    for (const Part& part : parts) {
      if (part.is_match && behaviour == Behaviour::kRemoved) continue;
      const bool joins = (behaviour == Behaviour::kContiguous && part.is_match == was_match) ||
                         (behaviour == Behaviour::kMergedWithPrevious && part.is_match && !was_match);
      fold(part, joins, [&](std::string_view previous) { return joined(previous, part.text); });
    }
  }
  std::erase_if(out, [](std::string_view piece) { return piece.empty(); });
  pieces->insert(pieces->end(), out.begin(), out.end());
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text,
                                                  std::deque<std::string>* storage) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  for (const Step& step : steps_) {
    std::vector<std::string_view> next;
    for (std::string_view piece : pieces) {
      if (step.prefix_space && piece.front() != ' ') piece = storage->emplace_back(" " + std::string(piece));
      if (step.pattern) {
        join(cut(piece, step), step.behaviour, &next);
      } else {
        next.push_back(piece);
      }
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace serval
