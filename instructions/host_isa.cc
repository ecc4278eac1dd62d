// The host's dispatch table, in the order of the opcodes.
#include "instructions/common/host_op.h"
#include "instructions/isa.h"

namespace serval {

#define SERVAL_OP(Type, folder, semantics) const HostHandler& host_handler(const Type*);
#include "instructions/isa.def"
#undef SERVAL_OP

const HostIsa& host_isa() {
  static const HostHandler* const handlers[] = {
#define SERVAL_OP(Type, folder, semantics) &host_handler(static_cast<const Type*>(nullptr)),
#include "instructions/isa.def"
#undef SERVAL_OP
  };
  static const HostIsa isa{handlers, check_instruction, op_name};
  return isa;
}

}  // namespace serval
