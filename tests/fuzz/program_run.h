// Runs a program that the validator has accepted, with exactly the memory that it declares.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vm/program.h"
#include "vm/state/output.h"

namespace serval::fuzz {

// One entry for each row of each pass.
using Results = std::vector<OutputToken>;

// Runs two sequences, one of them with several rows, for three passes. `seed` chooses the interleaving of the
// roles. Tensors that live within a pass are filled with `left_over` first, so that results that depend on
// their initial content differ. Returns nullopt if the program is too large to run for every input, or for
// fewer sequences.
std::optional<Results> run_program(const Program& program, uint64_t seed, std::byte left_over);

}  // namespace serval::fuzz
