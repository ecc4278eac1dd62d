// Reads a GGUF file's metadata into a Model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "models/gguf/gguf_file.h"
#include "models/model.h"
#include "models/pooling.h"

namespace serval {

// Returns null if there is no tensor of that name.
using FindGgufTensor = std::function<const GgufTensor*(std::string_view name)>;

// `name` becomes the model's name. Reads only tensors that the configuration depends on. Throws
// Error(kRuntime) with one line that names the file and the field for an unknown architecture, a missing
// field, a value out of range, or a field that asks for another forward pass.
std::shared_ptr<const Model> read_gguf_model(const GgufFields& fields, const FindGgufTensor& find_tensor,
                                             const std::string& name);

// The kind of pooling that the metadata name, for models that make embeddings; nullopt: none. Throws
// Error(kRuntime) for kinds that are not supported.
std::optional<PoolingConfig> read_gguf_pooling(const GgufFields& fields);

}  // namespace serval
