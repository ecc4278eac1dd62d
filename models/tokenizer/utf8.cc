#include "models/tokenizer/utf8.h"

namespace serval {
namespace {

using Kind = Utf8Unit::Kind;

struct Range {
  unsigned char low, high;
  bool has(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return low <= byte && byte <= high;
  }
};

struct Lead {
  std::size_t bytes;  // of the whole code point; 0 if no code point starts with this byte
  Range second;       // valid second bytes: they exclude overlong forms, surrogates and values above U+10FFFF
};

constexpr Range kContinuation{0x80, 0xBF};

// Unicode 16, table 3-7.
constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, kContinuation};
  if (byte < 0xC2) return {0, kContinuation};
  if (byte < 0xE0) return {2, kContinuation};
  if (byte == 0xE0) return {3, {0xA0, 0xBF}};
  if (byte == 0xED) return {3, {0x80, 0x9F}};
  if (byte < 0xF0) return {3, kContinuation};
  if (byte == 0xF0) return {4, {0x90, 0xBF}};
  if (byte < 0xF4) return {4, kContinuation};
  if (byte == 0xF4) return {4, {0x80, 0x8F}};
  return {0, kContinuation};
}

// Length of the longest valid prefix. Sets `*unit` to the unit after it, if there is one.
std::size_t valid_prefix(std::string_view text, Utf8Unit* unit) {
  std::size_t at = 0;
  while (at < text.size()) {
    *unit = utf8_first(text.substr(at));
    if (unit->kind != Kind::kValid) break;
    at += unit->bytes;
  }
  return at;
}

}  // namespace

Utf8Unit utf8_first(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.bytes == 0) return {Kind::kInvalid, 1};
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i};
    const Range& range = i == 1 ? lead.second : kContinuation;
    if (!range.has(text[i])) return {Kind::kInvalid, i};
  }
  return {Kind::kValid, lead.bytes};
}

std::string_view utf8_lossy(std::string_view text, std::string* storage) {
  Utf8Unit unit{};
  if (valid_prefix(text, &unit) == text.size()) return text;
  Utf8Stream stream;
  *storage = stream.push(text);
  *storage += stream.flush();
  return *storage;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_.append(bytes);
    bytes = joined;
    pending_.clear();
  }
  std::string out;
  while (!bytes.empty()) {
    Utf8Unit unit{};
    const std::size_t valid = valid_prefix(bytes, &unit);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    if (unit.kind == Kind::kIncomplete) {
      pending_ = bytes;
      break;
    }
    out += kReplacementCharacter;
    bytes.remove_prefix(unit.bytes);
  }
  return out;
}

std::string Utf8Stream::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace serval
