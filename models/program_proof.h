// Proves that a valid program computes what a model's graph computes.
#pragma once

#include <optional>

#include "models/model.h"
#include "scheduler/validate.h"
#include "vm/program.h"

namespace serval {

// The first difference between what a program computes and what graph_of(program, model) computes. Placement,
// how stages are cut into instructions, and the numbering of tensors, instructions and counters may differ.
//
// The comparison uses values (scheduler/values.h): each instruction must compute the value of an instruction
// of the graph, and after a pass the state and the KV caches must hold the same values as after the graph's
// pass. The program must be valid. Thread-safe.
std::optional<Violation> difference_from(const Program& program, const Model& model);

// Throws Error(kRuntime) with the message of difference_from(). Engines call it for programs that they did
// not compile themselves. If the program has no instructions yet, only limits and tensors are compared.
void require_model(const Program& program, const Model& model);

}  // namespace serval
