#include "vm/host/bind_check.h"

#include <fmt/format.h>
#include <optional>
#include <string>

#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval {

std::vector<PassControl*> check_binding(const Program& program, const HostIsa& isa,
                                        const HostMemory& memory) {
  check_structure(program);
  check_records(program, isa.check, "program");
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    if (memory.size() <= t || !memory.bound({t})) {
      throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': not bound to memory",
                                                   name_in(program, program.tensors[t])));
    }
  }
  std::vector<PassControl*> controls;
  for (uint32_t device = 0; device < program.num_devices; ++device) {
    const std::optional<TensorId> control = program.find_tensor(state_tensor::kControl, device);
    if (!control || program.tensors[control->index].bytes() != sizeof(PassControl)) {
      throw Error(ErrorKind::kRuntime, fmt::format("program: tensor '{}': missing", state_tensor::kControl));
    }
    controls.push_back(memory.data<PassControl>(*control));
  }
  return controls;
}

}  // namespace serval
