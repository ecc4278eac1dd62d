// Programs: compiling, listing, proving, simulating.
#include "vm/program.h"

#include <memory>
#include <utility>

#include "engine/python/bindings/bindings.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "engine/runtime/program_request.h"
#include "instructions/isa.h"
#include "models/program_proof.h"
#include "profiler/sim/parameters.h"
#include "profiler/sim/simulate.h"
#include "profiler/trace/trim.h"
#include "scheduler/report.h"
#include "scheduler/validate.h"
#include "vm/base/error.h"

namespace serval::python {
namespace {

namespace nb = nanobind;

// Passes before those that are wanted: a simulated launch begins with empty pages.
constexpr uint32_t kWarmUpPasses = 2;

Program compile(const EngineOptions& options, const std::string& machine, uint32_t rows,
                uint32_t cached_tokens) {
  check_options(options);
  const std::optional<TargetMachine> target = enumerator_named<TargetMachine>(machine);
  if (!target) throw Error(ErrorKind::kUsage, "machine: '" + machine + "'; expected h200 or host");
  if (rows < 1) throw Error(ErrorKind::kUsage, "rows: 0; expected at least 1");
  const auto model = find_model(options).model;
  return *compile_program(*model, options,
                          {.machine = *target, .rows = rows, .cached_tokens = cached_tokens});
}

// A file may contain any opcodes and operands; listings and simulations rely on valid instructions.
Program read_checked(const std::string& path) {
  Program program = read_program(path);
  check_records(program, check_instruction, path);
  return program;
}

// None, or why the program may not run, or does not compute the function of the options' model.
std::optional<Violation> violation_of(const Program& program, const std::optional<EngineOptions>& options) {
  std::optional<Violation> violation = validate(program);
  if (!violation && options) violation = difference_from(program, *find_model(*options).model);
  return violation;
}

nb::list waits_of(const Program& program, const Instruction& record) {
  nb::list out;
  for (const Wait& wait : program.waits_of(record)) out.append(nb::make_tuple(wait.counter, wait.threshold));
  return out;
}

nb::list signals_of(const Program& program, const Instruction& record) {
  nb::list out;
  for (const Signal& signal : program.signals_of(record))
    out.append(nb::make_tuple(signal.counter, signal.increment));
  return out;
}

nb::dict record_of(const Program& program, uint32_t queue, uint32_t pc) {
  const Instruction& record = program.queue(queue)[pc];
  nb::dict out;
  out["queue"] = queue;
  out["pc"] = pc;
  out["op"] = op_info(record.opcode).name;
  out["layer"] = record.tag == kNoTag ? nb::none() : nb::object(nb::cast(record.tag));
  out["text"] = format_instruction(program, record);
  out["waits"] = waits_of(program, record);
  out["signals"] = signals_of(program, record);
  return out;
}

nb::list records_of(const Program& program) {
  nb::list out;
  for (uint32_t queue = 0; queue < program.num_queues(); ++queue) {
    for (uint32_t pc = 0; pc < program.queue(queue).size(); ++pc) out.append(record_of(program, queue, pc));
  }
  return out;
}

SimParameters parameters_of(const std::vector<std::string>& what_ifs) {
  SimParameters parameters = h200_sim_parameters();
  for (const std::string& what_if : what_ifs) apply_what_if(parameters, what_if);
  return parameters;
}

Trace simulate_decoding(const Program& program, uint32_t sequences, uint32_t context_tokens, uint32_t tokens,
                        const std::vector<std::string>& what_ifs) {
  auto metadata = program.metadata;
  metadata["context"] = std::to_string(context_tokens);
  metadata["sequences"] = std::to_string(sequences);
  const SimLaunch launch = decode_launch(sequences, context_tokens, kWarmUpPasses + tokens);
  return last_tokens(simulate(program, launch, parameters_of(what_ifs), std::move(metadata)), tokens);
}

}  // namespace

void add_program(nb::module_& m) {
  using NoLock = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Violation>(m, "Violation")
      .def_prop_ro("rule", [](const Violation& v) { return name_of(v.rule); })
      .def_ro("message", &Violation::message)
      .def_ro("explanation", &Violation::explanation);
  nb::class_<Program>(m, "Program")
      .def_ro("metadata", &Program::metadata)
      .def_prop_ro("machine", [](const Program& p) { return p.machine.name; })
      .def_prop_ro("sms", &Program::num_sms)
      .def_prop_ro("instructions", [](const Program& p) { return p.instructions.size(); })
      .def_prop_ro("counters", [](const Program& p) { return p.counters.size(); })
      .def("records", &records_of, nb::sig("def records(self) -> list[dict[str, object]]"))
      .def(
          "disassemble", [](const Program& p) { return disassemble(p); }, NoLock())
      .def(
          "statistics",
          [](const Program& p, uint32_t rows, uint32_t cached_tokens) {
            return to_json(statistics_of(p, {.rows = rows, .context_tokens = cached_tokens}));
          },
          NoLock())
      .def("violation", &violation_of, nb::arg("options").none(), NoLock())
      .def("simulate", &simulate_decoding, NoLock())
      .def(
          "save", [](const Program& p, const std::string& path) { write_program(p, path); }, NoLock());
  m.def("compile", &compile, NoLock());
  m.def("read_program", &read_checked, NoLock());
}

}  // namespace serval::python
