// Whether a valid program computes what a model's graph says.
#pragma once

#include <optional>

#include "models/model.h"
#include "scheduler/validate.h"
#include "vm/program.h"

namespace serval {

// The first difference between what a program computes and what the model's graph for as many rows, SMs and
// devices does; none if they are the same but for placement, how stages are cut into instructions, and how
// tensors, instructions and counters are numbered. It is proven by values (scheduler/values.h): each
// instruction must compute what one of the graph does, and after a pass the state and the KV caches must hold
// what they hold after the graph's. The program must be valid. Thread-safe.
std::optional<Violation> difference_from(const Program& program, const Model& model);

// Throws Error(kRuntime) with the difference's line. Engines call it for programs that they have not
// compiled. Of a program without instructions, which is yet to be compiled, only the limits and tensors are
// compared.
void require_model(const Program& program, const Model& model);

}  // namespace serval
