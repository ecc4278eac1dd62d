#include "scheduler/values.h"

#include <algorithm>
#include <array>

#include "vm/instruction.h"

namespace serval {
namespace {

// First words of computations other than instructions, whose first word is the opcode.
constexpr uint64_t kBeforePass = ~uint64_t{0}, kEither = ~uint64_t{1};

uint64_t hash_of(std::span<const uint64_t> words) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  constexpr int kRotation = 29;
  uint64_t h = words.size();
  for (const uint64_t word : words) {
    h = (h ^ word) * kFactor;
    h ^= h >> kRotation;
  }
  return h;
}

}  // namespace

uint32_t ValueTable::name(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  return names_.emplace(text, static_cast<uint32_t>(names_.size())).first->second;
}

Value ValueTable::before_pass(std::string_view text) {
  return written(computation(std::array{kBeforePass, uint64_t{name(text)}}), 0);
}

Value ValueTable::either(Value first, Value second) {
  return written(computation(std::array{kEither, first, second}), 0);
}

std::span<const uint64_t> ValueTable::words(uint32_t computation) const {
  const size_t begin = words_begin_[computation];
  const size_t end = computation + 1 < words_begin_.size() ? words_begin_[computation + 1] : words_.size();
  return std::span(words_).subspan(begin, end - begin);
}

uint32_t ValueTable::computation(std::span<const uint64_t> asked) {
  static_assert(kMaxTensorOperands <= 1 << kOperandBits);
  const uint64_t hash = hash_of(asked);
  const auto [begin, end] = by_hash_.equal_range(hash);
  const auto found = std::find_if(
      begin, end, [&](const auto& entry) { return std::ranges::equal(words(entry.second), asked); });
  if (found != end) return found->second;
  const auto number = static_cast<uint32_t>(words_begin_.size());
  words_begin_.push_back(words_.size());
  words_.insert(words_.end(), asked.begin(), asked.end());
  by_hash_.emplace(hash, number);
  return number;
}

}  // namespace serval
