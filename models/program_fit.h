// Checks that a program, for example one from a file, belongs to a model.
#pragma once

#include "models/model.h"
#include "scheduler/graph.h"
#include "vm/program.h"

namespace serval {

// Compares the program's limits and its tensor table (names, devices, shapes, types, kinds, row orders, head
// sizes; in any order) with those of graph_of(program, model). Throws Error(kRuntime) with one line that
// names the first limit or tensor that differs. Thread-safe.
void require_fit(const Program& program, const Model& model);

// The model's graph with the program's rows, sequences, SMs, devices and arithmetic class. Throws as
// Model::graph() does.
Graph graph_of(const Program& program, const Model& model);

}  // namespace serval
