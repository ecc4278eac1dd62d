// The state's parts as tensors of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vm/program.h"
#include "vm/tensor.h"

namespace serval {

// The tensor of a part of the state (vm/state/names.h) in programs with these limits; none if no part has the
// name. The shape does not identify a part: several parts may have the same one.
std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits);

// The part of the state that an operand of this name must name: the part of the same name, also with the
// prefix "peer_" ("peer_rows"); for "items", attention's list. Empty if the name belongs to no part.
std::string_view state_part_of_operand(std::string_view operand);

// True if the tensor's contents belong to one pass: they are read only after the same pass has written them.
bool lives_within_pass(const Tensor& tensor);

}  // namespace serval
