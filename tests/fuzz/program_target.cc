// Fuzzes program files. A program that can be read can be written. One that can be bound can be disassembled,
// simulated, validated and compared with a model. One that the validator accepts passes the checked mode, and
// its results depend neither on the order of execution nor on the initial content of memory.
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
  require(serialise(deserialise(bytes, "again")) == bytes,
          "a program does not change by writing and reading it");
}

void check_runs(const Program& program) {
  for (uint64_t seed = 0; seed < kInterleavings; ++seed) {
    CheckedOptions options;
    options.seed = seed;
    const auto failure = run_checked(program, checked_isa(), options);
    if (failure) require_one_line(failure->c_str());
    require(!failure, failure ? failure->c_str() : "");
  }
}

// Skips programs without the pass's control, which exist for tests of the validator: they would not end.
void check_results(const Program& program) {
  if (!program.find_tensor(state_tensor::kControl)) return;
  constexpr std::byte kZero{0}, kNan{0xff};
  const auto first = run_program(program, 0, kZero), second = run_program(program, 1, kNan);
  if (!first || !second) return;
  const bool same = std::memcmp(first->data(), second->data(), first->size() * sizeof(OutputToken)) == 0;
  require(same, "results do not depend on the interleaving or on the initial content of memory");
}

bool binds(const Program& program) {
  return std::all_of(program.instructions.begin(), program.instructions.end(), [&](const Instruction& i) {
    const std::string wrong = check_instruction(program, i);
    if (!wrong.empty()) require_one_line(wrong.c_str());
    return wrong.empty();
  });
}

void check(const Program& program) {
  check_round_trip(program);
  require(!disassemble(program).empty(), "every program can be listed");
  const bool bound = binds(program);
  if (bound) {
    accepts([&] {
      const ProgramStatistics statistics = statistics_of(program, {});
      require(!to_text(statistics).empty() && !to_json(statistics).empty(), "statistics can be printed");
    });
  }
  const auto violation = validate(program);
  require(bound || violation.has_value(), "operands out of range are refused");
  if (violation) {
    require_one_line(violation->message.c_str());
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
  // Otherwise the whole corpus would be refused after every change of the instruction set.
  program.metadata.erase("isa");
  check(program);
  return 0;
}
