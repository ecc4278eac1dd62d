// The state's parts as tensors of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vm/program.h"
#include "vm/tensor.h"

namespace serval {

// The tensor that a part of the state (vm/state/names.h) is in programs with these limits; none if
// no part has the name. A tensor's shape does not say which it is: several parts may have the same.
std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits);

// The part that an instruction's operand of this name names, if it names a part: the one that is called like
// it, or like it on a peer ("peer_rows"); attention's list is the operand "items". Empty: none.
std::string_view state_part_of_operand(std::string_view operand);

// Whether what the tensor holds is of one pass: read in it only after it was written in it.
bool lives_within_pass(const Tensor& tensor);

}  // namespace serval
