#include "engine/grammar/utf8_ranges.h"

#include <algorithm>

#include "models/tokenizer/utf8.h"

namespace serval::grammar {
namespace {

constexpr uint32_t kBitsOfContinuation = 6;
constexpr uint8_t kFirstContinuation = 0x80, kLastContinuation = 0xBF;

uint32_t length_of(uint32_t code_point) {
  if (code_point < 0x80) return 1;
  if (code_point < 0x800) return 2;
  return code_point < 0x10000 ? 3 : 4;
}

std::vector<uint8_t> encoded(uint32_t code_point) {
  std::vector<uint8_t> bytes;
  append_utf8(code_point, bytes);
  return bytes;
}

// For a range without surrogates whose ends have UTF-8 of equal length. Splits it until every part has all
// values of the continuation bytes after the first byte that differs.
void add_sequences(CodePoints range, std::vector<Utf8Sequence>& out) {
  for (uint32_t level = 1; level < length_of(range.first); ++level) {
    const uint32_t block = (1U << kBitsOfContinuation * level) - 1;
    if ((range.first & ~block) == (range.last & ~block)) continue;
    if ((range.first & block) != 0) {
      add_sequences({range.first, range.first | block}, out);
      return add_sequences({(range.first | block) + 1, range.last}, out);
    }
    if ((range.last & block) != block) {
      add_sequences({range.first, (range.last & ~block) - 1}, out);
      return add_sequences({range.last & ~block, range.last}, out);
    }
  }
  out.emplace_back(encoded(range.first), encoded(range.last));
}

}  // namespace

Utf8Sequence::Utf8Sequence(std::span<const uint8_t> first, std::span<const uint8_t> last)
    : size_(first.size()) {
  for (size_t i = 0; i < size_; ++i) bytes_[i] = {first[i], last[i]};
}

std::vector<Utf8Sequence> utf8_sequences(CodePoints range) {
  constexpr CodePoints kPieces[] = {{0, 0x7F},
                                    {0x80, 0x7FF},
                                    {0x800, kFirstSurrogate - 1},
                                    {kLastSurrogate + 1, 0xFFFF},
                                    {0x10000, kLastCodePoint}};
  std::vector<Utf8Sequence> out;
  for (const CodePoints& piece : kPieces) {
    const CodePoints part = {std::max(range.first, piece.first), std::min(range.last, piece.last)};
    if (part.first <= part.last) add_sequences(part, out);
  }
  return out;
}

void append_utf8(uint32_t code_point, std::vector<uint8_t>& bytes) {
  constexpr uint8_t kLeads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  const uint32_t length = length_of(code_point);
  for (uint32_t i = length; i-- > 0;) {
    const uint32_t bits = code_point >> kBitsOfContinuation * i;
    const bool is_lead = i + 1 == length;
    const uint32_t low = bits & (kFirstContinuation - 1U) & 0x3F;
    bytes.push_back(static_cast<uint8_t>(is_lead ? kLeads[length] | bits : kFirstContinuation | low));
  }
}

uint32_t take_code_point(std::string_view& text) {
  constexpr uint32_t kPayloads[] = {0x7F, 0x1F, 0x0F, 0x07};  // bits of the first byte, by length
  constexpr uint32_t kPayload = 0x3F;
  const size_t bytes = utf8_first(text).bytes;
  uint32_t code_point = static_cast<uint8_t>(text[0]) & kPayloads[bytes - 1];
  for (size_t i = 1; i < bytes; ++i)
    code_point = code_point << kBitsOfContinuation | (static_cast<uint8_t>(text[i]) & kPayload);
  text.remove_prefix(bytes);
  return code_point;
}

Utf8State utf8_step(Utf8State state, uint8_t byte) {
  using enum Utf8State;
  const auto within = [&](uint8_t first, uint8_t last, Utf8State to) {
    return byte >= first && byte <= last ? to : kInvalid;
  };
  switch (state) {
    case kOne:
      return within(kFirstContinuation, kLastContinuation, kBoundary);
    case kTwo:
      return within(kFirstContinuation, kLastContinuation, kOne);
    case kThree:
      return within(kFirstContinuation, kLastContinuation, kTwo);
    case kAfterE0:
      return within(0xA0, kLastContinuation, kOne);
    case kAfterEd:
      return within(kFirstContinuation, 0x9F, kOne);
    case kAfterF0:
      return within(0x90, kLastContinuation, kTwo);
    case kAfterF4:
      return within(kFirstContinuation, 0x8F, kTwo);
    case kInvalid:
      return kInvalid;
    case kBoundary:
      break;
  }
  if (byte < 0x80) return kBoundary;
  if (byte < 0xC2 || byte > 0xF4) return kInvalid;
  if (byte < 0xE0) return kOne;
  if (byte == 0xE0) return kAfterE0;
  if (byte == 0xED) return kAfterEd;
  if (byte < 0xF0) return kTwo;
  if (byte == 0xF0) return kAfterF0;
  return byte == 0xF4 ? kAfterF4 : kThree;
}

}  // namespace serval::grammar
