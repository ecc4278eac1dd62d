// The answer of a program: the tokens of one sequence, whatever else runs with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vm/program.h"

namespace serval::testing {

// How a sequence comes to be read and continued. None of it may show in its answer.
struct Circumstances {
  uint32_t chunk = 1;       // tokens of the prompt that a pass reads, at most
  uint32_t passes = 1;      // of a launch that decodes
  bool neighbours = false;  // two others share its passes, one of them with the same prompt
  uint64_t interleaving = 0;
  std::byte left_over{0};  // what memory that lives within a pass holds at first
};

struct Drawn {
  int32_t token = 0;
  float log_probability = 0;  // of programs that pool: a sum of what they have pooled
  friend bool operator==(const Drawn&, const Drawn&) = default;
};

// A few tokens drawn behind a prompt, with weights that differ from tensor to tensor. The program must be
// valid. None if a pass would take too long for a test. Throws as ReplayInterpreter.
std::optional<std::vector<Drawn>> answer_of(const Program& program, const Circumstances& circumstances);

// Several circumstances that differ in all of this. None if all answers are the same; else which differ.
std::optional<std::string> first_difference_of_answers(const Program& program, uint64_t seed);

}  // namespace serval::testing
