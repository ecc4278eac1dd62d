#include "profiler/trace/trace_program.h"

#include "instructions/isa.h"
#include "scheduler/report.h"

namespace serval {
namespace {

// Names in order of first use.
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

}  // namespace

const TraceIsa& trace_isa() {
  static const TraceIsa isa{
      op_name, [](const Instruction& i, const CostContext& c) { return op_info(i.opcode).cost(i, c); },
      format_instruction};
  return isa;
}

TraceProgram trace_program(const Program& program, const TraceIsa& isa, const CostContext& context) {
  TraceProgram out;
  out.machine = program.machine;
  out.machine.sms = program.num_sms();  // of all devices, one after the other
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
      const Cost cost = isa.cost(i, context);
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
    }
  }
  return out;
}

}  // namespace serval
