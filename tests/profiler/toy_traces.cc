#include "tests/profiler/toy_traces.h"

#include "profiler/trace/recorded.h"
#include "profiler/trace/trace_program.h"

namespace serval::testing {

TraceProgram toy_trace_program(const Program& program) {
  const TraceIsa isa{
      toy_isa().name,
      [](const Program&, const Instruction& i, const CostContext&) {
        return Cost{.bytes = i.as<ToyOperands>().value, .operations = 1};
      },
      [](const Program&, const Instruction& i) { return std::string(toy_isa().name(i.opcode)); }};
  return trace_program(program, isa, {});
}

Trace record_toy(ToyMachine& machine, uint32_t passes, uint32_t kept) {
  TraceProgram program = toy_trace_program(machine.program);
  machine.interpreter().record(ring_capacity(program, kept));
  machine.run(passes);
  return trace_of(std::move(program), machine.interpreter().events(), TraceSource::kHost, {{"isa", "toy"}});
}

}  // namespace serval::testing
