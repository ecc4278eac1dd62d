// Numbers for what instructions compute. Two numbers are equal if and only if both values are computed in the
// same way from the same inputs. So the validator can check, without computing anything, that all rows that
// an instruction reads come from one computation, and that two programs compute the same.
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

// 0: no value.
using Value = uint64_t;
inline constexpr Value kNoValue = 0;

// Numbers computations. Programs that are to be compared share a table. Then equal computations have equal
// numbers, whatever the indices of tensors, counters and instructions.
class ValueTable {
 public:
  // The value that a tensor of this name holds before a pass.
  Value before_pass(std::string_view name);
  // Number of a name.
  uint32_t name(std::string_view text);

  // Number of a computation. `words` describe all of it: two computations are equal if and only if their
  // words are.
  uint32_t computation(std::span<const uint64_t> words);
  // The value that the computation writes to its operand at this position.
  static Value written(uint32_t computation, uint8_t operand) {
    return (uint64_t{computation} + 1) << kOperandBits | operand;
  }
  // The computation that wrote a value, which must come from written().
  static uint32_t computation_of(Value value) { return static_cast<uint32_t>((value >> kOperandBits) - 1); }
  // The value that is `first` in some states and `second` in others; which states is the same in all
  // programs.
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
