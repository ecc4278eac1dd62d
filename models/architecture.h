// One kind of config.json that is understood.
#pragma once

#include <memory>

#include "models/model.h"
#include "vm/base/json_fields.h"

namespace serval {

struct Architecture {
  const char* model_type;  // config.json's "model_type"
  const char* class_name;  // the one of its "architectures", a class of transformers
  // Reads everything but the name. Throws Error(kRuntime) with one line that names file and field.
  std::unique_ptr<Model> (*read)(const JsonFields& fields);
};

}  // namespace serval
