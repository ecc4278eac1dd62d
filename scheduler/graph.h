// A forward pass before placement: instructions in an order in which they can run one after another.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "instructions/isa.h"
#include "vm/program.h"
#include "vm/tensor.h"

namespace serval {

// Instances of one operation of the network. They do not depend on each other and are placed together.
struct Stage {
  std::string name;  // "layer 3 gate_up_silu"
  uint32_t first_node = 0;
  uint32_t num_nodes = 0;
};

// A graph covers all devices. A node runs on the device of the tensors that it names, except those that it
// pushes to. With several devices, the last stage consists of the nodes that let the devices go on to the
// next pass, and the node before this stage runs after all others.
struct Graph : ProgramShape {
  uint32_t num_devices = 1;
  std::vector<Tensor> tensors;
  std::vector<Instruction> nodes;  // opcode, tag and operands; the scheduler adds waits and signals
  std::vector<Stage> stages;       // consecutive ranges that cover the nodes
  std::map<std::string, std::string> metadata;

  TensorId add_tensor(Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return {static_cast<uint32_t>(tensors.size() - 1)};
  }
  void begin_stage(std::string name) {
    stages.push_back({std::move(name), static_cast<uint32_t>(nodes.size()), 0});
  }
  uint32_t device_of_node(uint32_t node) const {
    return num_devices == 1 ? 0 : device_of(tensors, nodes[node]);
  }
  template <class Op>
  void add(const Op& op, uint16_t tag = kNoTag) {
    nodes.push_back(make_instruction(op, tag));
    ++stages.back().num_nodes;
  }
};

}  // namespace serval
