#include "profiler/trace/trace_program.h"

#include <algorithm>

#include "instructions/isa.h"
#include "scheduler/report.h"

namespace serval {
namespace {

// Collects names in order of first use.
class OpNames {
 public:
  explicit OpNames(std::vector<std::string>& names) : names_(names) {}
  uint32_t index_of(const std::string& name) {
    const auto [it, inserted] = index_.emplace(name, static_cast<uint32_t>(names_.size()));
    if (inserted) names_.push_back(name);
    return it->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, uint32_t> index_;
};

// The number of a pass's rows that a region covers. Active rows come first, and of these the ones that want
// logits, at most one for each sequence.
uint64_t rows_touched(const Program& program, const Region& region, uint32_t active_rows) {
  uint64_t end = region.box.row_end;
  if (region.part == Part::kActiveRows) end = std::min<uint64_t>(end, active_rows);
  if (region.part == Part::kLogitsRows)
    end = std::min<uint64_t>({end, active_rows, program.limits.sequences});
  return end > region.box.row_begin ? end - region.box.row_begin : 0;
}

// Adds the bytes that an instruction on `rank` writes to the memory of other ranks.
void add_pushes(const Program& program, const Footprint& footprint, uint32_t rank, uint32_t active_rows,
                TraceProgram& out) {
  const auto instruction = static_cast<uint32_t>(out.instructions.size() - 1);
  std::vector<TracePush> pushes(program.num_devices);
  for (const Region& region : footprint) {
    const Tensor& tensor = program.tensors[region.tensor.index];
    if (!writes(region.access) || tensor.device == rank) continue;
    TracePush& push = pushes[tensor.device];
    push.bytes += rows_touched(program, region, active_rows) * (region.box.col_end - region.box.col_begin) *
                  size_of(tensor.dtype);
    push.operands |= 1U << region.operand;
  }
  for (uint32_t to = 0; to < pushes.size(); ++to) {
    if (pushes[to].bytes > 0) out.pushes.push_back({instruction, to, pushes[to].bytes, pushes[to].operands});
  }
}

}  // namespace

const TraceIsa& trace_isa() {
  static const TraceIsa isa{op_name,
                            [](const Program& program, const Instruction& i, const CostContext& c) {
                              return op_info(i.opcode).cost(i, program, program.tensors, c);
                            },
                            format_instruction,
                            [](const Program& program, const Instruction& i, Footprint& out) {
                              op_info(i.opcode).footprint(i, program, nullptr, out);
                            }};
  return isa;
}

TraceProgram trace_program(const Program& program, const TraceIsa& isa, const CostContext& context) {
  TraceProgram out;
  out.machine = program.machine;
  out.machine.sms = program.num_sms();
  out.ranks = program.num_devices;
  out.global_queue = program.queue_kind == QueueKind::kGlobal;
  out.gate_counter = program.gate_counter;
  out.waits = program.waits;
  out.signals = program.signals;
  for (const Counter& c : program.counters) out.increments_per_pass.push_back(c.increments_per_pass);
  OpNames ops(out.ops);
  out.instructions.reserve(program.instructions.size());
  for (uint32_t q = 0; q < program.num_queues(); ++q) {
    uint32_t pc = 0;
    for (const Instruction& i : program.queue(q)) {
      const Cost cost = isa.cost(program, i, context);
      out.instructions.push_back({.op = ops.index_of(isa.name(i.opcode)),
                                  .layer = i.tag,
                                  .queue = q,
                                  .pc = pc++,
                                  .bytes = cost.bytes,
                                  .operations = cost.operations,
                                  .wait_begin = i.wait_begin,
                                  .wait_count = i.wait_count,
                                  .signal_begin = i.signal_begin,
                                  .signal_count = i.signal_count,
                                  .text = isa.text(program, i)});
      if (out.ranks == 1 || isa.footprint == nullptr) continue;
      Footprint footprint;
      isa.footprint(program, i, footprint);
      add_pushes(program, footprint, program.device_of_queue(q), context.rows, out);
    }
  }
  return out;
}

}  // namespace serval
