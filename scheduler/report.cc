#include "scheduler/report.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "instructions/isa.h"
#include "scheduler/timing.h"
#include "vm/base/statistics.h"

namespace serval {
namespace {

template <class T>
T operand_at(const Instruction& i, uint32_t offset) {
  T out;
  std::memcpy(&out, i.operands.data() + offset, sizeof out);
  return out;
}

std::string format_field(const Program& program, const Instruction& i, const FieldInfo& f) {
  switch (f.kind) {
    case FieldKind::kTensor: {
      const auto id = operand_at<TensorId>(i, f.offset);
      return id.index < program.tensors.size() ? name_in(program, program.tensors[id.index])
                                               : fmt::format("?{}", id.index);
    }
    case FieldKind::kPeers: {
      const auto id = operand_at<TensorId>(i, f.offset);
      return id.index < program.tensors.size() ? program.tensors[id.index].name + "@*"
                                               : fmt::format("?{}", id.index);
    }
    case FieldKind::kUnsigned:
      return std::to_string(operand_at<uint32_t>(i, f.offset));
    case FieldKind::kFloat:
      return fmt::format("{:g}", operand_at<float>(i, f.offset));
  }
  return "?";
}

// Names of the tensor operands in a wait's mask.
std::string format_mask(const OpInfo& info, uint32_t mask) {
  std::string out;
  int bit = 0;
  for (const FieldInfo& f : info.fields) {
    if (!names_tensors(f.kind)) continue;
    if ((mask >> bit++ & 1) == 0) continue;
    out += (out.empty() ? "" : " ");
    out += f.name;
  }
  return out;
}

// "c12"; in programs of several devices with the counter's device, and "!" for system scope: "c12@1!".
std::string counter_name(const Program& program, uint32_t counter) {
  if (program.num_devices == 1 || counter >= program.counters.size()) return fmt::format("c{}", counter);
  const Counter& c = program.counters[counter];
  return fmt::format("c{}@{}{}", counter, c.device, c.scope == CounterScope::kSystem ? "!" : "");
}

uint64_t sum(const std::vector<uint64_t>& v) {
  return std::accumulate(v.begin(), v.end(), uint64_t{0});
}

std::vector<std::string> name_path(const Program& program, const std::vector<uint32_t>& path) {
  std::vector<std::pair<std::string, int>> ops;
  for (const uint32_t i : path) ops.emplace_back(op_name(program.instructions[i].opcode), 1);
  // The layers of a model repeat one pattern; count each op instead of listing the path a thousand lines
  // long.
  std::map<std::string, int> counts;
  std::vector<std::string> order;
  for (const auto& [name, n] : ops) {
    if (counts[name]++ == 0) order.push_back(name);
  }
  for (std::string& name : order) {
    if (counts[name] > 1) name += fmt::format(" ×{}", counts[name]);
  }
  return order;
}

}  // namespace

std::string where(const Program& program, uint32_t index) {
  const auto queue = std::upper_bound(program.queue_begin.begin(), program.queue_begin.end(), index);
  const auto q = static_cast<uint32_t>(queue - program.queue_begin.begin() - 1);
  const Instruction& i = program.instructions[index];
  std::string out = program.queue_kind == QueueKind::kGlobal ? "queue" : sm_name(program, q);
  out += fmt::format(" pc {} ({}", index - program.queue_begin[q], op_name(i.opcode));
  if (i.tag != kNoTag) out += fmt::format(" of layer {}", i.tag);
  return out + ")";
}

std::string format_instruction(const Program& program, const Instruction& instruction) {
  std::string out = op_name(instruction.opcode);
  if (instruction.tag != kNoTag) out += fmt::format(" layer={}", instruction.tag);
  if (instruction.opcode >= kNumOpcodes) return out + fmt::format(" opcode={}", instruction.opcode);
  const OpInfo& info = op_info(instruction.opcode);
  for (const FieldInfo& f : info.fields)
    out += fmt::format(" {}={}", f.name, format_field(program, instruction, f));
  for (const Wait& w : program.waits_of(instruction)) {
    out += fmt::format(" | wait {}>={} ({})", counter_name(program, w.counter), w.threshold,
                       format_mask(info, w.operand_mask));
  }
  for (const Signal& s : program.signals_of(instruction))
    out += fmt::format(" | signal {}+{}", counter_name(program, s.counter), s.increment);
  return out;
}

std::string disassemble(const Program& program) {
  std::string out = fmt::format("# {} instructions, {} counters, {} for {} SMs of {}\n",
                                program.instructions.size(), program.counters.size(),
                                program.queue_kind == QueueKind::kGlobal ? "one queue" : "a queue each",
                                program.num_sms(), program.machine.name);
  if (program.num_devices > 1)
    out += fmt::format("# {} ranks of {} SMs\n", program.num_devices, program.machine.sms);
  out += fmt::format("# order: {}\n", name_of(program.order));
  if (const HeadShape& heads = program.heads; !heads.none())
    out += fmt::format("# heads: {} of {} channels, {} of keys and values\n", heads.q_heads, heads.head_dim,
                       heads.kv_heads);
  out += fmt::format("# limits: {} rows, {} sequences, {} tokens of context, {} KV blocks\n",
                     program.limits.rows, program.limits.sequences, program.limits.max_context,
                     program.limits.kv_blocks);
  for (const auto& [key, value] : program.metadata) out += fmt::format("# {}: {}\n", key, value);
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    out += program.queue_kind == QueueKind::kGlobal ? "\nglobal queue\n"
                                                    : fmt::format("\n{}\n", sm_name(program, q));
    size_t pc = 0;
    for (const Instruction& i : program.queue(q)) {
      out += fmt::format("{:6} {}\n", pc++, format_instruction(program, i));
    }
  }
  return out;
}

ProgramStatistics statistics_of(const Program& program, const CostContext& context) {
  ProgramStatistics s;
  s.instructions = program.instructions.size();
  s.sms = program.num_sms();
  s.counters = program.counters.size();
  s.waits = program.waits.size();
  s.signals = program.signals.size();
  if (program.num_devices > 1) s.rank_weight_bytes.resize(program.num_devices, 0);
  for (const Tensor& t : program.tensors) {
    const uint64_t bytes = t.kind == TensorKind::kWeight ? t.bytes() : 0;
    s.weight_bytes += bytes;
    if (program.num_devices > 1) s.rank_weight_bytes[t.device] += bytes;
  }
  std::vector<OpStatistics> ops(kNumOpcodes);
  s.bytes_per_queue.assign(program.num_queues(), 0);
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    for (const Instruction& i : program.queue(q)) {
      const Cost cost = op_info(i.opcode).cost(i, program, program.tensors, context);
      ops[i.opcode].instructions += 1;
      ops[i.opcode].bytes += cost.all_bytes();
      ops[i.opcode].operations += cost.operations;
      s.bytes_per_queue[q] += cost.all_bytes();
    }
  }
  for (uint16_t o = 0; o < kNumOpcodes; ++o) {
    if (ops[o].instructions == 0) continue;
    ops[o].name = op_name(o);
    s.ops.push_back(ops[o]);
  }
  s.imbalance = imbalance_of(s.bytes_per_queue);
  s.makespan_us = time_pass(program, context, false).end_us;
  const PassTiming longest = time_pass(program, context, true);
  s.critical_path_us = longest.end_us;
  s.critical_path = name_path(program, longest.critical_path);
  return s;
}

std::string to_text(const ProgramStatistics& s) {
  constexpr double kMillion = 1e6;
  std::string out =
      fmt::format("{:<18}{:>14}{:>14}{:>14}\n", "op", "instructions", "MB a pass", "MFLOP a pass");
  for (const OpStatistics& op : s.ops) {
    out +=
        fmt::format("{:<18}{:>14}{:>14.2f}{:>14.2f}\n", op.name, op.instructions,
                    static_cast<double>(op.bytes) / kMillion, static_cast<double>(op.operations) / kMillion);
  }
  const auto [least, most] = std::minmax_element(s.bytes_per_queue.begin(), s.bytes_per_queue.end());
  out += fmt::format("{:<18}{:>14}{:>14.2f}\n\n", "all", s.instructions,
                     static_cast<double>(sum(s.bytes_per_queue)) / kMillion);
  out += fmt::format("weights           {:.2f} MB\n", static_cast<double>(s.weight_bytes) / kMillion);
  if (!s.rank_weight_bytes.empty()) {
    const auto [fewest, largest] =
        std::minmax_element(s.rank_weight_bytes.begin(), s.rank_weight_bytes.end());
    out += fmt::format("weights of a rank {:.2f} to {:.2f} MB on {} ranks\n",
                       static_cast<double>(*fewest) / kMillion, static_cast<double>(*largest) / kMillion,
                       s.rank_weight_bytes.size());
  }
  out += fmt::format("queues            {} for {} SMs\n", s.bytes_per_queue.size(), s.sms);
  out += fmt::format("bytes a queue     {:.3f} to {:.3f} MB, the largest {:.1f} % above the mean\n",
                     static_cast<double>(*least) / kMillion, static_cast<double>(*most) / kMillion,
                     100 * s.imbalance);
  out += fmt::format("counters          {} ({} waits, {} signals)\n", s.counters, s.waits, s.signals);
  out += fmt::format("a pass            {:.1f} us on the cost model\n", s.makespan_us);
  out += fmt::format("critical path     {:.1f} us with unlimited SMs and bandwidth: {}\n", s.critical_path_us,
                     fmt::join(s.critical_path, ", "));
  return out;
}

std::string to_json(const ProgramStatistics& s) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const OpStatistics& op : s.ops) {
    ops.push_back({{"name", op.name},
                   {"instructions", op.instructions},
                   {"bytes", op.bytes},
                   {"operations", op.operations}});
  }
  nlohmann::ordered_json out = {{"instructions", s.instructions},
                                {"sms", s.sms},
                                {"counters", s.counters},
                                {"waits", s.waits},
                                {"signals", s.signals},
                                {"weight_bytes", s.weight_bytes},
                                {"ops", ops},
                                {"bytes_per_queue", s.bytes_per_queue},
                                {"imbalance", s.imbalance},
                                {"makespan_us", s.makespan_us},
                                {"critical_path_us", s.critical_path_us},
                                {"critical_path", s.critical_path}};
  if (!s.rank_weight_bytes.empty()) out["rank_weight_bytes"] = s.rank_weight_bytes;
  return out.dump(2);
}

}  // namespace serval
