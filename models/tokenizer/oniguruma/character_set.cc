#include "models/tokenizer/oniguruma/character_set.h"

#include <fmt/format.h>

namespace serval::oniguruma {
namespace {

constexpr std::uint32_t kFirstPrintable = 0x20, kFirstUnprintable = 0x7F;

std::string escaped(std::uint32_t character, std::string_view meta) {
  if (character == '\n') return "\\n";
  if (character == '\r') return "\\r";
  if (character == '\t') return "\\t";
  if (character < kFirstPrintable || character >= kFirstUnprintable)
    return fmt::format("\\x{{{:X}}}", character);
  const char c = static_cast<char>(character);
  return meta.find(c) == meta.npos ? std::string(1, c) : std::string{'\\', c};
}

// True if `members` is just \p{NAME}, which needs no brackets.
bool is_one_property(std::string_view members) {
  return members.starts_with("\\p{") && members.find('}') == members.size() - 1;
}

}  // namespace

std::string literal(std::uint32_t character) {
  return escaped(character, R"(\^$.[]|()?*+{})");
}

std::string class_literal(std::uint32_t character) {
  return escaped(character, R"(\^[]-)");
}

void CharacterSet::add(const CharacterSet& more) {
  members += more.members;
  others.insert(others.end(), more.others.begin(), more.others.end());
}

void CharacterSet::add_range(std::uint32_t first, std::uint32_t last) {
  members += class_literal(first);
  if (last != first) members += '-' + class_literal(last);
}

std::string CharacterSet::expression() const {
  if (others.empty()) return is_one_property(members) ? members : '[' + members + ']';
  if (members.empty() && others.size() == 1) return others[0];
  std::string out = "(?:";
  if (!members.empty()) out += '[' + members + "]|";
  for (const std::string& other : others) out += other + '|';
  out.back() = ')';
  return out;
}

std::string CharacterSet::complement() const {
  if (!others.empty()) return "(?:(?!" + expression() + ")(?s:.))";
  return is_one_property(members) ? "\\P" + members.substr(2) : "[^" + members + ']';
}

CharacterSet complement_of(const CharacterSet& set) {
  return {"", {set.complement()}};
}

CharacterSet intersection_of(const CharacterSet& a, const CharacterSet& b) {
  return {"", {"(?:(?=" + a.expression() + ')' + b.expression() + ')'}};
}

}  // namespace serval::oniguruma
