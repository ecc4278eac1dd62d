// The state's parts as tensors of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vm/program.h"
#include "vm/tensor.h"

namespace serval {

// The tensor of a part of the state (vm/state/names.h) in programs with these limits; none if no part has the
// name. No two parts have rows of the same type and size, so a tensor's shape identifies it; an exception are
// the block table and masks if the vocabulary is half as long as the context.
std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits);

// True if the tensor's contents belong to one pass: an element is read only after it was written in the same
// pass.
bool lives_within_pass(const Tensor& tensor);

}  // namespace serval
