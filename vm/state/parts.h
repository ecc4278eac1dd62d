// What the parts of the state look like in a program's tensor table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vm/program.h"
#include "vm/tensor.h"

namespace serval {

// The tensor that a part of the state (vm/state/names.h) is in programs with these limits; none if
// no part has the name. No two parts have rows of the same type and size, so a tensor's shape says which it
// is; but for the block table and masks, where the vocabulary is half as long as the context.
std::optional<Tensor> state_part(std::string_view name, const StateLimits& limits);

// Whether what the tensor holds is of one pass: read in it only after it was written in it.
bool lives_within_pass(const Tensor& tensor);

}  // namespace serval
