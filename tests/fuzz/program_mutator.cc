// Mutates a program's waits, signals, operands and order. Keeps the tables consistent, so that the file
// reaches the validator.
#include <algorithm>
#include <cstring>
#include <optional>

#include "instructions/isa.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/prove/mutate.h"
#include "vm/host/random_order.h"
#include "vm/program.h"

// libFuzzer's mutator of bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace serval::fuzz {
namespace {

constexpr uint64_t kShareOfBytes = 4;  // one in four mutations is libFuzzer's
constexpr uint64_t kMaxMutations = 3;

bool binds(const Program& program) {
  return std::all_of(program.instructions.begin(), program.instructions.end(),
                     [&](const Instruction& i) { return check_instruction(program, i).empty(); });
}

// Returns nullopt if the bytes are not a program that can be bound.
std::optional<Program> mutated(std::span<const std::byte> bytes, RandomOrder& random) {
  std::optional<Program> program;
  try {
    program = deserialise(bytes, "input");
  } catch (const Error&) {
    return std::nullopt;
  }
  for (uint64_t count = 1 + random.below(kMaxMutations); count > 0; --count) {
    if (!binds(*program)) break;
    const auto mutation = static_cast<testing::Mutation>(random.below(testing::kNumMutations));
    if (auto next = testing::mutate(*program, mutation, random)) program = std::move(next);
  }
  return program;
}

}  // namespace
}  // namespace serval::fuzz

// libFuzzer requires this name.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace serval;
  using namespace serval::fuzz;
  RandomOrder random(seed);
  if (random.below(kShareOfBytes) != 0) {
    if (const auto program = mutated(bytes_of(text_of(data, size)), random)) {
      const std::vector<std::byte> out = serialise(*program);
      if (out.size() <= max_size) {
        std::memcpy(data, out.data(), out.size());
        return out.size();
      }
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
