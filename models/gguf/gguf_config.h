// From a GGUF file's metadata to a model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "models/gguf/gguf_file.h"
#include "models/model.h"

namespace serval {

// Null where there is no tensor of that name.
using FindGgufTensor = std::function<const GgufTensor*(std::string_view name)>;

// A model called `name`; of the tensors, it looks at those that the shape depends on. Throws Error(kRuntime)
// with one line that names the file and the field: an unknown architecture, a missing field, one out of its
// limits or one that asks for another forward pass.
std::shared_ptr<const Model> read_gguf_model(const GgufFields& fields, const FindGgufTensor& find_tensor,
                                             const std::string& name);

}  // namespace serval
