// A compiled program: immutable, printable, storable, and the same for both interpreters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vm/base/enum_names.h"
#include "vm/instruction.h"
#include "vm/machine.h"
#include "vm/program_shape.h"
#include "vm/tensor.h"

namespace serval {

enum class QueueKind : uint8_t {
  kPerSm = 0,   // one queue an SM
  kGlobal = 1,  // one queue: the SM that is free takes its first record
};
template <>
struct EnumNames<QueueKind> {
  static constexpr EnumName<QueueKind> kTable[] = {{QueueKind::kPerSm, "per-sm"},
                                                   {QueueKind::kGlobal, "global"}};
};

// Limits of a program. Devices that share a model are called ranks (docs/several_gpus.md).
inline constexpr uint32_t kMaxDevices = 8;
inline constexpr uint32_t kMaxStateLimit = 1U << 24;

// Plain data; threads may share a const Program.
//
// SMs are numbered device by device, machine.sms on each; a queue runs on its SM's device. Tensors and
// counters name the device on which they lie. Tensors of the same name are that tensor on different devices.
struct Program : ProgramShape {
  Machine machine;
  QueueKind queue_kind = QueueKind::kPerSm;
  uint32_t num_devices = 1;
  // Index of the pass gate's counter, which the last instruction of a pass signals: no SM starts pass e + 1
  // before it has reached (e + 1) × increments_per_pass, and then each reads PassControl::last_pass. Device d
  // has its own gate, the d-th counter from this one.
  uint32_t gate_counter = 0;

  std::vector<Instruction> instructions;  // queue after queue
  std::vector<uint32_t> queue_begin;      // queue q is [queue_begin[q], queue_begin[q + 1]); size: queues + 1
  std::vector<Wait> waits;
  std::vector<Signal> signals;
  std::vector<Counter> counters;
  std::vector<Tensor> tensors;
  std::map<std::string, std::string>
      metadata;  // model name, policy, …: for readers, and to match a checkpoint

  std::optional<TensorId> find_tensor(std::string_view name, uint32_t device = 0) const;
  uint32_t num_sms() const { return machine.sms * num_devices; }
  uint32_t device_of_queue(uint32_t q) const {
    return queue_kind == QueueKind::kGlobal ? 0 : q / machine.sms;
  }
  uint32_t gate_of(uint32_t device) const { return gate_counter + device; }
  uint32_t num_queues() const {
    return queue_begin.empty() ? 0 : static_cast<uint32_t>(queue_begin.size() - 1);
  }
  std::span<const Instruction> queue(uint32_t q) const {
    return std::span(instructions).subspan(queue_begin[q], queue_begin[q + 1] - queue_begin[q]);
  }
  std::span<const Wait> waits_of(const Instruction& i) const {
    return std::span(waits).subspan(i.wait_begin, i.wait_count);
  }
  std::span<const Signal> signals_of(const Instruction& i) const {
    return std::span(signals).subspan(i.signal_begin, i.signal_count);
  }
};

// Type, shape and kind for error lines: "bf16 [16, 64] of kind 2".
std::string describe(const Tensor& tensor);
// A tensor's name in listings and error lines: "residual", or "residual@1" in programs of several devices.
std::string name_in(const Program& program, const Tensor& tensor);
// "SM 7", or "rank 1 SM 3" in programs of several devices.
std::string sm_name(const Program& program, uint32_t sm);

// Throws Error(kRuntime), naming the field, unless
// - queues partition the records, and all indices are in range;
// - instructions do not share waits or signals, and a counter's increments add up to less than 2^31;
// - tensors have unique names on their device and sizes that fit in 63 bits; parts of the state have the type
//   and size that follow from the limits;
// - a device has 1 to kMaxSms SMs, a pass 1 to kLargestRows rows and a state 1 to kLargestSequences
//   sequences;
// - heads are complete or absent, and the order suits the rows and devices (vm/program_shape.h);
// - several devices have one queue an SM and one gate each, and one device no counter of system scope.
//
// The instruction set checks opcodes and operands (instructions/isa.h).
void check_structure(const Program& program);
// The part of check_structure() that concerns the program's shape, which the records' checks rely on.
void check_shape(const Program& program);

// Returns why an instruction set cannot run a record of a program, or "".
using CheckRecord = std::string (*)(const Program&, const Instruction&);
// Throws Error(kRuntime), which names the program and the record, if the instruction set cannot run one of
// the records.
void check_records(const Program& program, CheckRecord check, const std::string& name);

// Program files: docs/program_format.md. Reading compares every length with the remaining bytes before it
// allocates, and then calls check_structure(). Both directions throw Error(kRuntime), naming the file and
// field.
std::vector<std::byte> serialise(const Program& program);
Program deserialise(std::span<const std::byte> bytes, const std::string& name);
void write_program(const Program& program, const std::filesystem::path& path);
Program read_program(const std::filesystem::path& path);

}  // namespace serval
