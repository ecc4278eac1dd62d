// What the validator accepts, no interleaving may break.
#include <array>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <string>

#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "scheduler/validate.h"
#include "tests/prove/campaign.h"
#include "tests/prove/mutate.h"
#include "tests/prove/programs.h"
#include "tests/prove/rewrite.h"
#include "vm/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSampleMutants = 1000;
constexpr uint32_t kInterleavings = 20;
constexpr uint32_t kPasses = 2;

struct Tally {
  uint32_t mutants = 0;
  uint32_t unbound = 0;  // no interpreter would bind it: a table or an operand is out of range
  uint32_t caught = 0;   // by a run
  uint32_t refused = 0;
  uint32_t refused_only = 0;  // by the validator, and not caught

  void add(const Tally& t) {
    mutants += t.mutants;
    unbound += t.unbound;
    caught += t.caught;
    refused += t.refused;
    refused_only += t.refused_only;
  }
  std::string row(const char* name) const {
    return fmt::format("| {:<36} | {:>7} | {:>7} | {:>6} | {:>7} | {:>12} | {:>8} |\n", name, mutants,
                       unbound, caught, refused, refused_only, mutants - refused);
  }
};

struct Mutant {
  Mutation mutation;
  Program program;
};

// A program of the scheduler's, or one rewritten to use counters in ways that the scheduler does not.
Program original_of(RandomOrder& random) {
  Program program = small_programs()[random.below(small_programs().size())];
  constexpr uint64_t kMostRewrites = 4;
  for (uint64_t n = random.below(2) == 0 ? 0 : 1 + random.below(kMostRewrites); n > 0; --n) {
    const auto kind = static_cast<Rewrite>(random.below(kNumRewrites));
    if (std::optional<Program> next = rewrite(program, kind, random)) program = std::move(*next);
  }
  return program;
}

// Draws until something has changed.
Mutant mutant_of(RandomOrder& random) {
  for (;;) {
    const auto mutation = static_cast<Mutation>(random.below(kNumMutations));
    const Program original = original_of(random);
    if (std::optional<Program> program = mutate(original, mutation, random))
      return {mutation, std::move(*program)};
  }
}

bool binds(const Program& program) {
  try {
    check_structure(program);
    check_records(program, check_instruction, "mutant");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Every third mutant also runs over exact footprints of random states.
std::optional<std::string> first_failure(const Program& program, uint32_t seed, RandomOrder& random) {
  const RandomPasses passes(program.limits, kPasses, random);
  for (uint32_t n = 0; n < kInterleavings; ++n) {
    CheckedOptions options{.seed = seed + n, .passes = kPasses, .states = {}};
    if (seed % 3 == 0 && n % 2 == 1) options.states = passes.views();
    if (std::optional<std::string> failure = run_checked(program, checked_isa(), options)) return failure;
  }
  return std::nullopt;
}

TEST(MutationTest, OriginalsAreAcceptedAndRunClean) {
  RandomOrder random(1);
  for (const Program& program : small_programs()) {
    const std::optional<Violation> violation = validate(program);
    EXPECT_FALSE(violation) << violation->message;
    for (uint32_t seed = 0; seed < 2; ++seed) {  // the first is a multiple of three: exact states, too
      const std::optional<std::string> failure = first_failure(program, seed, random);
      EXPECT_FALSE(failure) << *failure;
    }
  }
}

TEST(MutationTest, NoMutantThatAnInterleavingBreaksIsAccepted) {
  const uint32_t count = campaign_size("SERVAL_PROVE_MUTANTS", kSampleMutants);
  std::array<Tally, kNumMutations> tallies;
  std::mutex mutex;
  for_each_seed(count, [&](uint32_t seed) {
    RandomOrder random(seed);
    const auto [mutation, program] = mutant_of(random);
    Tally one{.mutants = 1};
    const std::optional<Violation> violation = validate(program);
    std::optional<std::string> failure;
    if (binds(program)) {
      failure = first_failure(program, seed, random);
      one.caught = failure ? 1 : 0;
    } else {
      one.unbound = 1;
    }
    one.refused = violation ? 1 : 0;
    one.refused_only = violation && one.caught + one.unbound == 0 ? 1 : 0;
    const std::lock_guard lock(mutex);
    tallies[static_cast<size_t>(mutation)].add(one);
    EXPECT_TRUE(violation || !failure)
        << "mutant " << seed << " (" << name_of(mutation) << ") is accepted, but " << *failure;
    EXPECT_TRUE(violation || !one.unbound) << "mutant " << seed << " cannot be bound, but is accepted";
  });

  Tally all;
  std::string table =
      "| mutation                             | mutants | unbound | caught | refused | refused only | "
      "accepted |\n"
      "| ------------------------------------ | ------: | ------: | -----: | ------: | -----------: | "
      "-------: |\n";
  for (int m = 0; m < kNumMutations; ++m) {
    table += tallies[static_cast<size_t>(m)].row(name_of(static_cast<Mutation>(m)));
    all.add(tallies[static_cast<size_t>(m)]);
  }
  fmt::print("{}{}", table, all.row("all"));
  EXPECT_GE(2 * (all.caught + all.unbound), all.mutants) << "the runs see too little to judge the validator";
}

}  // namespace
}  // namespace serval::testing
