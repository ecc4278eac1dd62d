// Programs that the validator accepts run correctly in every interleaving.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "models/program_fit.h"
#include "models/program_proof.h"
#include "scheduler/validate.h"
#include "tests/prove/answers.h"
#include "tests/prove/campaign.h"
#include "tests/prove/mutate.h"
#include "tests/prove/programs.h"
#include "tests/prove/rewrite.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSampleMutants = 1000;
constexpr uint32_t kInterleavings = 20;
constexpr uint32_t kPasses = 2;

struct Tally {
  uint32_t mutants = 0;
  uint32_t unbound =
      0;  // no interpreter would bind it: out of range, or other tensors and limits than the model's
  uint32_t caught = 0;        // by a run
  uint32_t refused = 0;       // by the validator, or because it is not the model's
  uint32_t refused_only = 0;  // and not caught
  uint32_t of_the_model = 0;  // accepted, and it computes what the original does

  void add(const Tally& t) {
    mutants += t.mutants;
    unbound += t.unbound;
    caught += t.caught;
    refused += t.refused;
    refused_only += t.refused_only;
    of_the_model += t.of_the_model;
  }
  std::string row(const char* name) const {
    return fmt::format("| {:<36} | {:>7} | {:>7} | {:>6} | {:>7} | {:>12} | {:>8} | {:>12} |\n", name,
                       mutants, unbound, caught, refused, refused_only, mutants - refused, of_the_model);
  }
};

struct Mutant {
  Mutation mutation;
  Program original, program;
  uint32_t graph_sms;  // for which the graph was built; a rewrite may have placed it on a different number
};

// A program of the scheduler, or one rewritten to use counters in ways that the scheduler does not.
Program original_of(RandomOrder& random, uint32_t& graph_sms) {
  const std::vector<Program>& programs = random.below(3) == 0 ? shared_programs() : small_programs();
  Program program = programs[random.below(programs.size())];
  graph_sms = program.machine.sms;
  constexpr uint64_t kMostRewrites = 4;
  if (program.num_devices > 1) return program;  // rewrites do not support ranks
  for (uint64_t n = random.below(2) == 0 ? 0 : 1 + random.below(kMostRewrites); n > 0; --n) {
    const auto kind = static_cast<Rewrite>(random.below(kNumRewrites));
    if (std::optional<Program> next = rewrite(program, kind, random)) program = std::move(*next);
  }
  return program;
}

// Draws until something has changed: programs for a mutation, and if it is one of few programs, another.
Mutant mutant_of(RandomOrder& random) {
  constexpr uint32_t kPrograms = 20;
  for (;;) {
    const auto mutation = static_cast<Mutation>(random.below(kNumMutations));
    for (uint32_t n = 0; n < kPrograms; ++n) {
      uint32_t graph_sms = 0;
      Program original = original_of(random, graph_sms);
      if (std::optional<Program> program = mutate(original, mutation, random))
        return {mutation, std::move(original), std::move(*program), graph_sms};
    }
  }
}

std::vector<Tensor> by_name(std::vector<Tensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.name, a.device) < std::tie(b.name, b.device);
  });
  return tensors;
}

// A mutation of tensors, of the shape and of devices always fails here: memory is allocated as the model
// says.
bool binds(const Mutant& mutant) {
  const Program &p = mutant.program, &o = mutant.original;
  if (by_name(p.tensors) != by_name(o.tensors) || p.shape() != o.shape() || p.num_devices != o.num_devices)
    return false;
  try {
    check_structure(p);
    check_records(p, check_instruction, "mutant");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// For a program of tiny_shared_config(): on four ranks, two of them share a KV head.
int kv_heads_of(const Program& original) {
  return original.num_devices == 4 ? 2 : 8;
}

LlamaConfig model_of(const Program& original) {
  LlamaConfig config = tiny_config();
  for (const LlamaConfig& model :
       {tiny_parts_config(), tiny_shared_config(kv_heads_of(original)), tiny_sliced_config(),
        tiny_wide_config(), tiny_shared_head_norms_config(), tiny_e4m3_inputs_config()}) {
    if (original.metadata.at("model") == model.name) config = model;
  }
  config.num_layers = std::stoi(original.metadata.at("layers"));
  config.pools = original.limits.pooled_cols > 0;
  config.max_position = std::max(config.max_position, static_cast<int>(original.limits.max_context));
  return config;
}

bool fits(const Mutant& mutant) {
  Program program = mutant.program;
  program.machine.sms = mutant.graph_sms;
  try {
    require_fit(program, model_of(mutant.original));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A valid mutant may compute something else, if it does so for every row.
bool is_of_the_model(const Mutant& mutant) {
  Program program = mutant.program;
  program.machine.sms = mutant.graph_sms;
  // What is placed again has other queues than the graph's machine.
  if (program.num_queues() != mutant.program.num_queues()) return false;
  return !difference_from(program, model_of(mutant.original));
}

// Over bounds, and over exact footprints of random states.
std::optional<std::string> first_failure(const Program& program, uint32_t seed, RandomOrder& random) {
  const RandomPasses passes(program, kPasses, random);
  for (uint32_t n = 0; n < kInterleavings; ++n) {
    CheckedOptions options{.seed = seed + n, .passes = kPasses, .states = {}};
    if (n % 2 == 1) options.states = passes.views();
    if (std::optional<std::string> failure = run_checked(program, checked_isa(), options)) return failure;
  }
  return std::nullopt;
}

std::vector<Program> all_originals() {
  std::vector<Program> originals = small_programs();
  originals.insert(originals.end(), shared_programs().begin(), shared_programs().end());
  return originals;
}

TEST(MutationTest, OriginalsHaveEveryInstruction) {
  std::set<std::string> missing;
  for (uint16_t opcode = 0; opcode < kNumOpcodes; ++opcode) missing.insert(op_name(opcode));
  for (const Program& program : all_originals()) {
    for (const Instruction& i : program.instructions) missing.erase(op_name(i.opcode));
  }
  EXPECT_TRUE(missing.empty()) << "no mutant is made of " << fmt::format("{}", fmt::join(missing, ", "));
}

TEST(MutationTest, OriginalsAreAcceptedAndRunClean) {
  RandomOrder random(1);
  for (const Program& program : all_originals()) {
    const std::optional<Violation> violation = validate(program);
    EXPECT_FALSE(violation) << violation->message;
    EXPECT_NO_THROW(require_model(program, model_of(program)));
    const std::optional<std::string> difference = first_difference_of_answers(program, 1);
    EXPECT_FALSE(difference) << *difference;
    for (uint32_t seed = 0; seed < 2; ++seed) {
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
    const Mutant mutant = mutant_of(random);
    const Mutation mutation = mutant.mutation;
    const Program& program = mutant.program;
    Tally one{.mutants = 1};
    const std::optional<Violation> violation = validate(program);
    std::optional<std::string> failure;
    if (binds(mutant)) {
      failure = first_failure(program, seed, random);
      one.caught = failure ? 1 : 0;
    } else {
      one.unbound = 1;
    }
    one.refused = violation || !fits(mutant) ? 1 : 0;
    one.refused_only = one.refused == 1 && one.caught + one.unbound == 0 ? 1 : 0;
    std::optional<std::string> difference;
    if (one.refused == 0 && !failure) {
      difference = first_difference_of_answers(program, seed);
      one.of_the_model = is_of_the_model(mutant) ? 1 : 0;
      if (one.of_the_model == 1) {
        EXPECT_EQ(answer_of(program, {}), answer_of(mutant.original, {})) << "mutant " << seed;
      }
    }
    const std::lock_guard lock(mutex);
    tallies[static_cast<size_t>(mutation)].add(one);
    EXPECT_TRUE(one.refused == 1 || !failure)
        << "mutant " << seed << " (" << name_of(mutation) << ") is accepted, but " << *failure;
    EXPECT_FALSE(difference) << "mutant " << seed << " (" << name_of(mutation) << ") is accepted, but "
                             << *difference;
    EXPECT_TRUE(one.refused == 1 || !one.unbound) << "mutant " << seed << " cannot be bound, but is accepted";
  });

  Tally all;
  std::string table =
      "| mutation                             | mutants | unbound | caught | refused | refused only | "
      "accepted | of the model |\n"
      "| ------------------------------------ | ------: | ------: | -----: | ------: | -----------: | "
      "-------: | -----------: |\n";
  for (int m = 0; m < kNumMutations; ++m) {
    table += tallies[static_cast<size_t>(m)].row(name_of(static_cast<Mutation>(m)));
    all.add(tallies[static_cast<size_t>(m)]);
  }
  fmt::print("{}{}", table, all.row("all"));
  EXPECT_GE(2 * (all.caught + all.unbound), all.mutants) << "the runs see too little to judge the validator";
}

}  // namespace
}  // namespace serval::testing
