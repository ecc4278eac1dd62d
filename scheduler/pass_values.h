// A pass, instruction after instruction, as the values that it computes (scheduler/values.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/contents.h"
#include "scheduler/values.h"
#include "vm/instruction.h"
#include "vm/region.h"
#include "vm/tensor.h"

namespace serval {

// Why what an instruction reads or writes is no value.
struct NoValue {
  enum class Why : uint8_t {
    kNotWritten,    // the region, of which `region.part` had to be written in this pass
    kMixedValues,        // the region, or the operand, is of `one` and of `other`, which compute different things
    kWrittenTwice,  // by this instruction and `one`: of a cache, tokens of the pass
  };
  static constexpr uint32_t kNone = Contents::Found::kNone;
  Why why;
  Region region;
  uint32_t one = kNone, other = kNone;  // none: what was there before the pass
};

class PassValues {
 public:
  // Both must outlive it.
  PassValues(std::span<const Tensor> tensors, ValueTable& values);

  // Takes what the instruction reads, and leaves what it computes where it writes: `footprint`, its bounds
  // over all states. What it computes is a matter of its opcode, of its operands but for windows
  // (vm/reflect.h), of the weights' names and of the values that it reads. Instructions must be visited in an
  // order that conflicting accesses have; their operands must check.
  std::optional<NoValue> visit(uint32_t index, const Instruction& instruction, const Footprint& footprint);
  // Of the instruction that was visited last.
  uint32_t computation() const { return computation_; }

  Contents& contents() { return contents_; }

 private:
  void add_operands(const Instruction& instruction);
  std::optional<Part> fresh_part(const Region& read) const;
  std::optional<NoValue> read(const Region& region);
  std::optional<NoValue> write(uint32_t index, const Region& region);
  Value before_pass(TensorId tensor);

  std::span<const Tensor> tensors_;
  ValueTable* values_;
  Contents contents_;
  std::vector<uint32_t> names_;     // of each tensor of which the name counts, plus one; else 0
  std::vector<bool> within_pass_;   // of each tensor: lives_within_pass()
  std::vector<Value> before_pass_;  // of each tensor, once it was asked for
  std::vector<uint64_t> words_;
  struct Operand {
    Value value = kNoValue;
    const Region* region = nullptr;  // the first that was read of it
  };
  std::array<Operand, kMaxTensorOperands> operands_ = {};
  uint32_t computation_ = 0;
};

// The first operand, by name, in which two instructions of one opcode differ and which is no window; null if
// there is none. Each has its program's tensors.
const char* first_difference(std::span<const Tensor> tensors, const Instruction& one,
                             std::span<const Tensor> other_tensors, const Instruction& other);

}  // namespace serval
