// Finds the tensors of a quantised matrix in a checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/quantised/quantisation.h"
#include "models/checkpoint/weight_spec.h"

namespace serval {

struct FoundMatrix {
  QuantisedMatrix matrix;
  std::vector<std::string> tensors;  // that it is made of
};

// Looks for the tensors of matrix `spec`, whose name in the checkpoint is `name` ("….weight"). nullopt if the
// checkpoint stores the matrix in BF16, F16 or F32, or not at all, and the configuration allows that. Checks
// names, shapes, types and column groups; reads no codes or zero points, and no scales but those in fp32 of
// 4-bit integers. Throws Error(kRuntime) with
// one line that names the file and the tensor.
std::optional<FoundMatrix> find_quantised_matrix(const Checkpoint& checkpoint,
                                                 const Quantisation& quantisation, const WeightSpec& spec,
                                                 const std::string& name);

// True if the checkpoint stores a module's weight under the names of packed weights.
bool has_packed_weight(const Checkpoint& checkpoint, const std::string& module);

// "model.layers.0.mlp.up_proj" for "model.layers.0.mlp.up_proj.weight".
std::string module_of(const std::string& weight);

}  // namespace serval
