#include "vm/program.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <unordered_set>

#include "vm/base/error.h"
#include "vm/state/parts.h"

namespace serval {
namespace {

constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 62;
// A wait compares a counter with its target correctly while they differ by less than half of the counter's
// range. They differ by at most one pass.
constexpr uint64_t kMaxIncrements = (uint64_t{1} << 31) - 1;
// The channels of all heads then fit into 32 bits.
constexpr uint32_t kMaxHeads = 1U << 20;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRuntime, "program: " + message);
}

void check_range(const char* what, size_t index, uint64_t begin, uint64_t count, uint64_t size) {
  if (begin > size || count > size - begin) {
    refuse(fmt::format("instruction {}: {}: [{}, {}); limit: {}", index, what, begin, begin + count, size));
  }
}

void check_queues(const Program& p) {
  if (p.queue_begin.empty() || p.queue_begin.front() != 0 || p.queue_begin.back() != p.instructions.size()) {
    refuse("queues: do not cover the instructions");
  }
  if (!std::is_sorted(p.queue_begin.begin(), p.queue_begin.end())) refuse("queues: overlap");
  if (p.queue_kind == QueueKind::kGlobal && p.num_devices > 1)
    refuse(fmt::format("queues: one for all SMs; {} devices need a queue an SM", p.num_devices));
  const uint32_t wanted = p.queue_kind == QueueKind::kGlobal ? 1 : p.num_sms();
  if (p.num_queues() != wanted) refuse(fmt::format("queues: {}, expected {}", p.num_queues(), wanted));
}

// Checks that instructions do not share waits or signals. Otherwise a short file could claim instructions ×
// table size of them, and loops over them would not end.
void check_owned(const char* what, uint64_t claimed, uint64_t size) {
  if (claimed > size)
    refuse(fmt::format("{}: {} claimed by the instructions; limit: {}", what, claimed, size));
}

void check_side_tables(const Program& p) {
  uint64_t waits = 0, signals = 0;
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    check_range("waits", i, p.instructions[i].wait_begin, p.instructions[i].wait_count, p.waits.size());
    check_range("signals", i, p.instructions[i].signal_begin, p.instructions[i].signal_count,
                p.signals.size());
    waits += p.instructions[i].wait_count;
    signals += p.instructions[i].signal_count;
  }
  check_owned("waits", waits, p.waits.size());
  check_owned("signals", signals, p.signals.size());
  for (size_t i = 0; i < p.waits.size(); ++i) {
    if (p.waits[i].counter >= p.counters.size()) {
      refuse(fmt::format("wait {}: counter {}; limit: {}", i, p.waits[i].counter, p.counters.size()));
    }
  }
  for (size_t i = 0; i < p.signals.size(); ++i) {
    if (p.signals[i].counter >= p.counters.size()) {
      refuse(fmt::format("signal {}: counter {}; limit: {}", i, p.signals[i].counter, p.counters.size()));
    }
  }
}

void check_counters(const Program& p) {
  std::vector<uint64_t> sums(p.counters.size(), 0);
  for (const Instruction& i : p.instructions) {
    for (const Signal& s : p.signals_of(i)) sums[s.counter] += s.increment;
  }
  for (size_t c = 0; c < p.counters.size(); ++c) {
    if (sums[c] != p.counters[c].increments_per_pass) {
      refuse(fmt::format("counter {}: {} increments a pass, its signals add up to {}", c,
                         p.counters[c].increments_per_pass, sums[c]));
    }
    if (sums[c] > kMaxIncrements) {
      refuse(fmt::format("counter {}: {} increments a pass; limit: {}", c, sums[c], kMaxIncrements));
    }
    if (p.counters[c].device >= p.num_devices) {
      refuse(fmt::format("counter {}: device {}; limit: {}", c, p.counters[c].device, p.num_devices - 1));
    }
    if (p.counters[c].scope == CounterScope::kSystem && p.num_devices == 1)
      refuse(fmt::format("counter {}: system scope, but there is one device", c));
  }
}

void check_gates(const Program& p) {
  if (p.gate_counter >= p.counters.size() || p.num_devices > p.counters.size() - p.gate_counter) {
    refuse(fmt::format("gate: counter {}; limit: {}", p.gate_counter,
                       p.counters.size() - std::min<size_t>(p.num_devices - 1, p.counters.size())));
  }
  for (uint32_t device = 0; device < p.num_devices; ++device) {
    const uint32_t gate = p.gate_of(device);
    if (p.counters[gate].increments_per_pass == 0) refuse("gate: no signal increments its counter");
    if (p.counters[gate].device != device) {
      refuse(fmt::format("gate of device {}: counter {} is on device {}", device, gate,
                         p.counters[gate].device));
    }
  }
}

void check_limits(const StateLimits& limits) {
  const auto check = [](const char* field, uint32_t value) {
    if (value > kMaxStateLimit) refuse(fmt::format("{}: {}; limit: {}", field, value, kMaxStateLimit));
  };
  check("limits.vocab", limits.vocab);
  check("limits.max_context", limits.max_context);
  check("limits.kv_blocks", limits.kv_blocks);
  check("limits.pooled_cols", limits.pooled_cols);
  if (limits.rows < 1 || limits.rows > kLargestRows)
    refuse(fmt::format("limits: {} rows; limit: 1 to {}", limits.rows, kLargestRows));
  if (limits.sequences < 1 || limits.sequences > kLargestSequences)
    refuse(fmt::format("limits: {} sequences; limit: 1 to {}", limits.sequences, kLargestSequences));
}

// Each field has its own line, so that the records' checks can rely on complete heads.
void check_heads(const HeadShape& heads) {
  if (heads == HeadShape{}) return;
  if (heads.head_dim != 64 && heads.head_dim != 128)
    refuse(fmt::format("heads.head_dim: {}, expected 64 or 128", heads.head_dim));
  if (heads.kv_heads < 1 || heads.kv_heads > kMaxHeads)
    refuse(fmt::format("heads.kv_heads: {}; limit: 1 to {}", heads.kv_heads, kMaxHeads));
  if (heads.q_heads < 1 || heads.q_heads > kMaxHeads)
    refuse(fmt::format("heads.q_heads: {}; limit: 1 to {}", heads.q_heads, kMaxHeads));
  if (heads.q_heads % heads.kv_heads != 0)
    refuse(
        fmt::format("heads.q_heads: {}, expected a multiple of {} KV heads", heads.q_heads, heads.kv_heads));
}

void check_order(const Program& p) {
  if (static_cast<uint32_t>(p.order) >= kNumOrders)
    refuse(fmt::format("order: {}; limit: {}", static_cast<uint32_t>(p.order), kNumOrders - 1));
  if (p.order != Order::kVectorInTileOrder) return;
  if (p.limits.rows != 1)
    refuse(fmt::format("order: {}, in passes of {} rows; limit: 1", name_of(p.order), p.limits.rows));
  if (p.num_devices != 1)
    refuse(fmt::format("order: {}, on {} devices; limit: 1", name_of(p.order), p.num_devices));
}

// Other names are checked when the program is bound: only then are they known.
void check_state_part(size_t index, const Tensor& t, const StateLimits& limits) {
  const std::optional<Tensor> part = state_part(t.name, limits);
  if (!part || same_layout(t, *part)) return;
  refuse(fmt::format("tensor {} '{}': {}, expected {}", index, t.name, describe(t), describe(*part)));
}

bool is_too_large(const Tensor& t) {
  const uint64_t most = kMaxTensorBytes / t.rows;  // bytes of a row
  return t.cols > most / size_of(t.dtype) || row_bytes_of(t.dtype, t.cols) > most;
}

void check_tensors(const Program& p) {
  std::vector<std::unordered_set<std::string_view>> names(kMaxDevices);
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    if (t.device >= p.num_devices) {
      refuse(fmt::format("tensor {} '{}': device {}; limit: {}", i, t.name, t.device, p.num_devices - 1));
    }
    if (!names[t.device].insert(t.name).second)
      refuse(fmt::format("tensor {} '{}': an earlier tensor has this name", i, t.name));
    if (t.rows == 0 || t.cols == 0 || is_too_large(t)) {
      refuse(fmt::format("tensor {} '{}': [{}, {}] is empty or larger than {} bytes", i, t.name, t.rows,
                         t.cols, kMaxTensorBytes));
    }
    if (is_int4(t.dtype) && t.cols % group_of(t.dtype) != 0) {
      refuse(fmt::format("tensor {} '{}': {} columns; expected a multiple of {} in {}", i, t.name, t.cols,
                         group_of(t.dtype), name_of(t.dtype)));
    }
    check_state_part(i, t, p.limits);
  }
}

}  // namespace

std::string describe(const Tensor& t) {
  return fmt::format("{} [{}, {}] of kind {} as {}", name_of(t.dtype), t.rows, t.cols,
                     static_cast<int>(t.kind), name_of(t.image));
}

std::string name_in(const Program& program, const Tensor& t) {
  return program.num_devices == 1 ? t.name : fmt::format("{}@{}", t.name, t.device);
}

std::string sm_name(const Program& program, uint32_t sm) {
  if (program.num_devices == 1) return fmt::format("SM {}", sm);
  return fmt::format("rank {} SM {}", sm / program.machine.sms, sm % program.machine.sms);
}

std::optional<TensorId> Program::find_tensor(std::string_view name, uint32_t device) const {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].device == device && tensors[i].name == name) return TensorId{i};
  }
  return std::nullopt;
}

void check_shape(const Program& p) {
  check_limits(p.limits);
  check_order(p);
  check_heads(p.heads);
}

void check_structure(const Program& p) {
  if (p.num_devices < 1 || p.num_devices > kMaxDevices)
    refuse(fmt::format("devices: {}; limit: 1 to {}", p.num_devices, kMaxDevices));
  if (p.machine.sms < 1 || p.machine.sms > kMaxSms) {
    refuse(fmt::format("machine: {} SMs; limit: 1 to {}", p.machine.sms, kMaxSms));
  }
  check_shape(p);
  check_queues(p);
  check_side_tables(p);
  check_tensors(p);
  check_counters(p);
  check_gates(p);
}

void check_records(const Program& program, CheckRecord check, const std::string& name) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const std::string wrong = check(program, program.instructions[i]);
    if (wrong.empty()) continue;
    throw Error(ErrorKind::kRuntime, fmt::format("{}: instruction {}: {}", name, i, wrong));
  }
}

}  // namespace serval
