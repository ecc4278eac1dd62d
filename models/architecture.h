// An architecture that config.json may name.
#pragma once

#include <memory>

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

struct Architecture {
  const char* model_type;  // config.json's "model_type"
  const char* class_name;  // the single entry of "architectures": a class of transformers
  // Reads every field except the model's name. Throws Error(kRuntime) with one line that names file and
  // field.
  std::unique_ptr<Model> (*read)(const JsonFields& fields);
};

}  // namespace serval
