#include "vm/host/bind_check.h"

#include <fmt/format.h>
#include <optional>
#include <string>

#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval {

PassControl* check_binding(const Program& program, const HostIsa& isa, const HostMemory& memory) {
  check_structure(program);
  check_records(program, isa.check, "program");
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    if (memory.size() <= t || !memory.bound({t})) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("program: tensor '{}': not bound to memory", program.tensors[t].name));
    }
  }
  const std::optional<TensorId> control = program.find_tensor(state_tensor::kControl);
  if (!control || program.tensors[control->index].bytes() != sizeof(PassControl)) {
    throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': missing", state_tensor::kControl));
  }
  return memory.data<PassControl>(*control);
}

}  // namespace serval
