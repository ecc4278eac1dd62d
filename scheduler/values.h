// What instructions compute, as numbers: two of them are equal if, and only if, what they stand for is
// computed in the same way from the same. So a proof can ask whether the rows that an instruction reads are
// all of one computation, and whether two programs compute the same, without computing anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace serval {

// 0 is no value.
using Value = uint64_t;
inline constexpr Value kNoValue = 0;

// Numbers computations. Programs that are to be compared share a table; then what they compute alike has
// equal numbers, wherever their tensors, counters and instructions stand.
class ValueTable {
 public:
  // What a tensor of this name holds before a pass.
  Value before_pass(std::string_view name);
  uint32_t name(std::string_view text);

  // A computation, by all that it is made of: `words` are equal if, and only if, the computations are.
  uint32_t computation(std::span<const uint64_t> words);
  // What the computation leaves in one of its operands, by the operand's position.
  static Value written(uint32_t computation, uint8_t operand) {
    return (uint64_t{computation} + 1) << kOperandBits | operand;
  }
  // The computation that has left the value; the value is of written().
  static uint32_t computation_of(Value value) { return static_cast<uint32_t>((value >> kOperandBits) - 1); }
  // What is `first` in some states and `second` in others, the same for all programs.
  Value either(Value first, Value second);

  size_t computations() const { return words_begin_.size(); }
  std::span<const uint64_t> words(uint32_t computation) const;

 private:
  static constexpr int kOperandBits = 4;
  std::map<std::string, uint32_t, std::less<>> names_;
  std::vector<uint64_t> words_;  // of all computations, one after the other
  std::vector<size_t> words_begin_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

}  // namespace serval
