#include "instructions/checked_isa.h"

#include "instructions/isa.h"

namespace serval {

const CheckedIsa& checked_isa() {
  static const CheckedIsa isa{
      .check = check_instruction,
      .footprint = [](const Instruction& i, const ProgramShape& shape, const StateView* state,
                      Footprint& out) { op_info(i.opcode).footprint(i, shape, state, out); },
      .pages =
          [](const Instruction& i) {
            const PageNeed need = op_info(i.opcode).pages(i);
            return need.pinned + need.streaming;
          },
      .name = op_name,
  };
  return isa;
}

}  // namespace serval
