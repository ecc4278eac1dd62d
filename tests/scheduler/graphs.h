// Graphs for the scheduler's tests: Llama passes small enough for brute force, and random ones of real
// instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llama/config.h"
#include "scheduler/compile.h"
#include "tests/llama/tiny_model.h"

namespace serval::testing {

inline const std::vector<uint32_t> kSmCounts = {1, 2, 7, 132};

// The preset with only `layers` layers.
LlamaConfig shortened_preset(const char* name, int layers);

// Stages of instructions with random ranges over the tensors of a small Llama, in random order; every node's
// tag is its index. The last node is `advance`.
Graph random_graph(uint32_t seed);

// An H200 with another number of SMs.
Machine machine_of(uint32_t sms);

struct Compilation {
  Policy policy;
  QueueKind queue_kind;
  uint32_t sms;
};
// Every policy with a queue for each SM, and the global queue.
std::vector<Compilation> compilations_for(uint32_t sms);
Program compile_as(const Graph& graph, const Compilation& how);

}  // namespace serval::testing
