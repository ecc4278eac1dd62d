// Runs a program that the validator has accepted, on memory that holds what the program states and no more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vm/program.h"
#include "vm/state/output.h"

namespace serval::fuzz {

// What is left of the results: one entry for each row of each pass.
using Results = std::vector<OutputToken>;

// Two sequences, one of them with several rows, for a few passes; the roles interleaved as `seed` says. What
// lives within a pass holds `left_over` bytes at first, so that results that depend on it differ. None if the
// program is too large to be run for every input, or cannot hold the sequences.
std::optional<Results> run_program(const Program& program, uint64_t seed, std::byte left_over);

}  // namespace serval::fuzz
