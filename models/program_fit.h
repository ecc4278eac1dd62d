// Whether a program, which may come from a file, is one of a model.
#pragma once

#include "models/model.h"
#include "scheduler/graph.h"
#include "vm/program.h"

namespace serval {

// Throws Error(kRuntime) with one line, which names the limit or tensor, unless the program's limits and its
// whole tensor table (names, devices, shapes, types, kinds, row orders, head sizes; in any order) are those
// of the model's graph for as many devices and SMs as the program has. Thread-safe.
void require_fit(const Program& program, const Model& model);

// The model's graph for as many rows, sequences, SMs and devices as the program is for, in its arithmetic
// class. Throws as Model::graph() does.
Graph graph_of(const Program& program, const Model& model);

}  // namespace serval
