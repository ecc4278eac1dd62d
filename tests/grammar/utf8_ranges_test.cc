#include "engine/grammar/utf8_ranges.h"

#include <set>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

using namespace grammar;

size_t matches(const std::vector<Utf8Sequence>& sequences, const std::vector<uint8_t>& bytes) {
  size_t count = 0;
  for (const Utf8Sequence& sequence : sequences) {
    if (sequence.bytes().size() != bytes.size()) continue;
    bool all = true;
    for (size_t i = 0; i < bytes.size(); ++i)
      all &= bytes[i] >= sequence.bytes()[i].first && bytes[i] <= sequence.bytes()[i].last;
    count += all ? 1 : 0;
  }
  return count;
}

bool is_surrogate(uint32_t code_point) {
  return code_point >= kFirstSurrogate && code_point <= kLastSurrogate;
}

TEST(Utf8Ranges, HaveEachCodePointOnce) {
  for (const auto& [first, last] : {std::pair(0U, kLastCodePoint),
                                    {0x41U, 0x41U},
                                    {0x7fU, 0x801U},
                                    {0x3fffU, 0x12345U},
                                    {0xd7ffU, 0xe000U},
                                    {0xfff0U, 0x100fffU}}) {
    const std::vector<Utf8Sequence> sequences = utf8_sequences({first, last});
    for (uint32_t c = 0; c <= kLastCodePoint; c += c < 0x11000 ? 1 : 977) {
      if (is_surrogate(c)) continue;
      std::vector<uint8_t> bytes;
      append_utf8(c, bytes);
      ASSERT_EQ(matches(sequences, bytes), c >= first && c <= last ? 1U : 0U) << c;
    }
  }
}

TEST(Utf8Ranges, ReadBytesAsTheTableSays) {
  const std::vector<Utf8Sequence> all = utf8_sequences({0, kLastCodePoint});
  for (uint32_t pair = 0; pair < 0x10000; ++pair) {
    const auto first = static_cast<uint8_t>(pair >> 8), second = static_cast<uint8_t>(pair);
    const Utf8State state = utf8_step(utf8_step(Utf8State::kBoundary, first), second);
    bool begins = false;
    for (const Utf8Sequence& s : all) {
      if (s.bytes().size() < 2) continue;
      const bool fits = first >= s.bytes()[0].first && first <= s.bytes()[0].last &&
                        second >= s.bytes()[1].first && second <= s.bytes()[1].last;
      begins |= fits;
    }
    const bool two_ascii = first < 0x80 && utf8_step(Utf8State::kBoundary, second) != Utf8State::kInvalid;
    ASSERT_EQ(state != Utf8State::kInvalid, begins || two_ascii) << pair;
  }
}

}  // namespace
}  // namespace serval::testing
