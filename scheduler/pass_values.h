// Finds the values (scheduler/values.h) that a pass computes, instruction by instruction.
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

// Why a region that an instruction reads or writes has no value.
struct NoValue {
  enum class Why : uint8_t {
    kNotWritten,    // `region.part` of the region must have been written in this pass
    kMixedValues,   // `one` and `other`, which compute differently, wrote the region or the operand
    kWrittenTwice,  // this instruction and `one` both write the pass's tokens to a cache
  };
  static constexpr uint32_t kNone = Contents::Found::kNone;
  Why why;
  Region region;
  uint32_t one = kNone, other = kNone;  // kNone: contents from before the pass
};

class PassValues {
 public:
  // Both arguments must outlive this object.
  PassValues(std::span<const Tensor> tensors, ValueTable& values);

  // Finds the values that the instruction reads, and records the value that it computes where it writes.
  // Returns nothing, or why there is no value. `footprint` bounds its accesses over all states. The value
  // depends on the opcode, the operands except windows (vm/reflect.h), the names of weights, and the values
  // that it reads. Visit instructions in an order that conflicting accesses have. Their operands must be
  // valid.
  std::optional<NoValue> visit(uint32_t index, const Instruction& instruction, const Footprint& footprint);
  // Number of the computation of the last visited instruction.
  uint32_t computation() const { return computation_; }

  Contents& contents() { return contents_; }

 private:
  void add_operands(const Instruction& instruction);
  uint32_t computation_of(const Instruction& instruction);
  std::optional<Part> fresh_part(const Region& read) const;
  Region wanted_part(const Region& read) const;
  std::optional<NoValue> read(const Region& region, size_t position);
  std::optional<NoValue> find(const Region& region, Value& value);
  std::optional<NoValue> write(uint32_t index, const Region& region);
  Value before_pass(TensorId tensor);

  std::span<const Tensor> tensors_;
  ValueTable* values_;
  Contents contents_;
  std::vector<uint32_t> names_;  // of each tensor: number of its name plus one; 0 if the name does not count
  std::vector<bool> within_pass_;   // of each tensor: lives_within_pass()
  std::vector<Value> before_pass_;  // of each tensor; kNoValue until needed
  std::vector<uint64_t> words_;
  // The last instruction of each opcode that was visited: the next one mostly reads and computes the same.
  struct Read {
    Region region;
    uint64_t changes = ~uint64_t{0};  // of the tensor's contents, when it had the value
    Value value = kNoValue;
  };
  struct Visited {
    std::vector<Read> reads;  // in the order of the footprint
    bool any = false;
    Instruction instruction;
    std::array<Value, kMaxTensorOperands> values;
    uint32_t computation;
  };
  std::vector<Visited> visited_;
  Visited* last_ = nullptr;  // of the opcode that is visited
  struct Operand {
    Value value = kNoValue;
    const Region* region = nullptr;  // its first region that was read
  };
  std::array<Operand, kMaxTensorOperands> operands_ = {};
  uint32_t computation_ = 0;
};

// Name of the first operand, other than windows, in which two instructions of one opcode differ; null if
// there is none. Each instruction names tensors of its own program.
const char* first_difference(std::span<const Tensor> tensors, const Instruction& one,
                             std::span<const Tensor> other_tensors, const Instruction& other);

}  // namespace serval
