// The 128-byte instruction record, and the waits and signals that it points to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace serval {

inline constexpr size_t kInstructionBytes = 128;
inline constexpr size_t kOperandBytes = 112;
// A wait names the operands that it guards in a bit mask over the tensor operands, so an instruction has at
// most 16.
inline constexpr int kMaxTensorOperands = 16;
inline constexpr uint16_t kNoTag = 0xffff;

// Index of a tensor in a program's tensor table; its own type, so that it is not mistaken for a size.
struct TensorId {
  uint32_t index = 0;
  friend constexpr bool operator==(TensorId, TensorId) = default;
};

// A tensor that each of a program's devices has: neighbours in the tensor table, in the order of the devices.
struct PeerTensors {
  uint32_t first = 0;  // index of device 0's tensor
  constexpr TensorId on(uint32_t device) const { return {first + device}; }
  friend constexpr bool operator==(PeerTensors, PeerTensors) = default;
};

// Types that a record's operand area can hold.
template <class T>
concept OperandStruct = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> &&
                            sizeof(T) <= kOperandBytes
                        && alignof(T) <= 16;

// One instruction. `wait_begin` and `signal_begin` index the program's side tables; `tag` (the layer) is for
// readers of listings.
struct alignas(16) Instruction {
  uint16_t opcode = 0;
  uint16_t tag = kNoTag;
  uint16_t wait_count = 0;
  uint16_t signal_count = 0;
  uint32_t wait_begin = 0;
  uint32_t signal_begin = 0;
  std::array<std::byte, kOperandBytes> operands{};

  template <OperandStruct T>
  T as() const {
    T out;
    std::memcpy(&out, operands.data(), sizeof(T));
    return out;
  }
  template <OperandStruct T>
  void set(const T& value) {
    operands.fill(std::byte{0});
    std::memcpy(operands.data(), &value, sizeof(T));
  }
};
static_assert(sizeof(Instruction) == kInstructionBytes);
static_assert(offsetof(Instruction, operands) == kInstructionBytes - kOperandBytes);
static_assert(std::is_trivially_copyable_v<Instruction>);

// Proceed once `counter` has reached `threshold` in this pass: the interpreter compares, wrap-safe,
// value >= threshold + epoch × increments_per_pass. Threshold 0 therefore means "all of the previous pass".
struct Wait {
  uint32_t counter = 0;
  uint32_t threshold = 0;
  uint32_t operand_mask = 0;  // bit i: tensor operand i may be touched only after this wait
  friend constexpr bool operator==(const Wait&, const Wait&) = default;
};
static_assert(sizeof(Wait) == 12);

// Add `increment` to `counter` (release) once everything the instruction reads and writes is done.
struct Signal {
  uint32_t counter = 0;
  uint32_t increment = 1;
  friend constexpr bool operator==(const Signal&, const Signal&) = default;
};
static_assert(sizeof(Signal) == 8);

enum class CounterScope : uint8_t { kBlock = 0, kGpu = 1, kSystem = 2 };

struct Counter {
  uint32_t increments_per_pass = 0;  // the sum of all signals of one pass
  CounterScope scope = CounterScope::kGpu;
  uint8_t device = 0;
  uint16_t reserved = 0;
  friend constexpr bool operator==(const Counter&, const Counter&) = default;
};
static_assert(sizeof(Counter) == 8);

// True once a monotonic 32-bit counter that may wrap has reached `target`.
constexpr bool counter_reached(uint32_t value, uint32_t target) {
  return static_cast<int32_t>(value - target) >= 0;
}

}  // namespace serval
