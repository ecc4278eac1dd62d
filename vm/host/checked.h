// The host interpreter, `checked` mode: footprints and vector clocks instead of arithmetic. It shares no
// reasoning with the scheduler's validator: it runs one interleaving and reports accesses that are not
// synchronised in it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "vm/program.h"
#include "vm/region.h"
#include "vm/state/view.h"

namespace serval {

// The parts of an instruction set that it needs.
struct CheckedIsa {
  // Returns why a record may not run in this program, as in HostIsa.
  std::string (*check)(const Program&, const Instruction&);
  void (*footprint)(const Instruction&, const ProgramShape& shape, const StateView* state, Footprint& out);
  uint32_t (*pages)(const Instruction&);  // pages that the record must hold at once
  const char* (*name)(uint16_t opcode);
};

struct CheckedOptions {
  uint64_t seed =
      0;  // picks the interleaving; odd seeds hold one instruction back for as long as anything else can run
  uint32_t passes = 2;
  // The state that each pass reads, for exact footprints. Empty: bounds over all states.
  std::span<const StateView> states;
};

// None if the interleaving is clean; otherwise one line: two accesses to a region of which neither is known
// to be first, a read of something not written in its pass (of a cache: of the pass's own tokens), an
// instruction that never starts, an access outside its tensor, a read of another device's memory, a write of
// what the instruction touches by another operand, too. A wait joins only the increments that came before its
// counter first reached what it waits for, and between devices only those of system scope, so nothing is
// taken for ordered because this run was lucky. The program's structure must check.
std::optional<std::string> run_checked(const Program& program, const CheckedIsa& isa,
                                       const CheckedOptions& options);

}  // namespace serval
