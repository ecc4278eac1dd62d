// A program file. What is read can be written again; what can be bound can be listed, timed and validated;
// and what the validator accepts, `checked` runs clean.
#include <algorithm>

#include "instructions/checked_isa.h"
#include "instructions/isa.h"
#include "scheduler/report.h"
#include "scheduler/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "vm/host/checked.h"
#include "vm/program.h"

namespace serval::fuzz {
namespace {

constexpr uint64_t kInterleavings = 2;

void check_round_trip(const Program& program) {
  const std::vector<std::byte> bytes = serialise(program);
  promise(serialise(deserialise(bytes, "again")) == bytes, "what is written reads as the same program");
}

void check_runs(const Program& program) {
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    CheckedOptions options;
    options.seed = seed;
    const auto failure = run_checked(program, checked_isa(), options);
    if (failure) promise_one_line(failure->c_str());
    promise(!failure, failure ? failure->c_str() : "");
  }
}

bool binds(const Program& program) {
  return std::all_of(program.instructions.begin(), program.instructions.end(), [&](const Instruction& i) {
    const std::string wrong = check_instruction(program, i);
    if (!wrong.empty()) promise_one_line(wrong.c_str());
    return wrong.empty();
  });
}

void check(const Program& program) {
  check_round_trip(program);
  promise(!disassemble(program).empty(), "every program can be listed");
  const bool bound = binds(program);
  if (bound) {
    accepts([&] {
      const ProgramStatistics statistics = statistics_of(program, {});
      promise(!to_text(statistics).empty() && !to_json(statistics).empty(), "statistics can be printed");
    });
  }
  const auto violation = validate(program);
  promise(bound || violation.has_value(), "operands out of range are refused");
  if (violation) {
    promise_one_line(violation->message.c_str());
  } else {
    check_runs(program);
  }
}

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval;
  using namespace serval::fuzz;
  Program program;
  if (!accepts([&] { program = deserialise(bytes_of(text_of(data, size)), "file"); })) return 0;
  // Else a change of the instruction set would have the corpus refused before anything is looked at.
  program.metadata.erase("isa");
  check(program);
  return 0;
}
