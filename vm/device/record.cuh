// A record of the program as the roles of a thread block see it: fetched, checked, and with its plan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vm/instruction.h"
#include "vm/program.h"
#include "vm/reflect.h"

namespace serval::device {

inline constexpr uint32_t kFetchedWaits = 16;  // more waits than these are read from global memory
inline constexpr uint32_t kFetchedSignals = 8;
inline constexpr uint32_t kStreamPlanBytes = 96;

// A wait of a fetched record: the value that the counter must reach in the record's pass.
struct CounterTarget {
  uint32_t counter;
  uint32_t target;
};

// RecordBuffer::stream of a group instruction. Streams are numbered from 1.
inline constexpr uint32_t kNoStream = 0;

// A fetched and checked instruction.
struct alignas(16) RecordBuffer {
  Instruction record;
  void* operands[kMaxTensorOperands];
  CounterTarget waits[kFetchedWaits];
  Signal signals[kFetchedSignals];
  alignas(16) std::byte plan[kStreamPlanBytes];  // the stream's Plan, for a streaming instruction
  uint32_t stream;                               // kNoStream, or the number of the stream that runs it
  uint32_t starts_early;                         // 1: a group instruction that calls wait_inputs() itself
  uint32_t pc;
  uint32_t pass;
  uint32_t begins_pass;  // 1: this SM's first record of the pass
  uint32_t ends_launch;  // 1: no record; roles leave once the gate of `pass` decides that the launch is over
  uint32_t passes_gate_on;  // 1: a consumer that has finished it knows that the gate of its pass is open
};

// Base of a tensor operand: tensor<&Embed::table, const std::byte>(buffer).
template <auto Member, class T>
__device__ __forceinline__ T* tensor(const RecordBuffer& buffer) {
  return static_cast<T*>(buffer.operands[operand_index<Member>()]);
}

}  // namespace serval::device
