// A program file. What is read can be written again; what can be bound can be listed, timed, validated and
// compared with a model; and what the validator accepts, `checked` runs clean, and runs to the same results
// in any order and on any left-overs in memory.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "instructions/checked_isa.h"
#include "instructions/isa.h"
#include "models/program_fit.h"
#include "scheduler/report.h"
#include "scheduler/validate.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/program_run.h"
#include "tests/llama/tiny_model.h"
#include "vm/host/checked.h"
#include "vm/program.h"
#include "vm/state/names.h"

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

// Programs without the pass's control are for tests of the validator: nothing would end them.
void check_results(const Program& program) {
  if (!program.find_tensor(state_tensor::kControl)) return;
  constexpr std::byte kZero{0}, kNan{0xff};
  const auto first = run_program(program, 0, kZero), second = run_program(program, 1, kNan);
  if (!first || !second) return;
  const bool same = std::memcmp(first->data(), second->data(), first->size() * sizeof(OutputToken)) == 0;
  promise(same, "results do not depend on the interleaving or on what memory held");
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
    accepts([&] { require_fit(program, testing::tiny_config()); });
    check_results(program);
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
