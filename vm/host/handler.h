// How the host interpreter runs an opcode: three roles, as the GPU's loader, consumer and storer warps have.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "vm/host/memory.h"
#include "vm/instruction.h"
#include "vm/program.h"

namespace serval {

// Working memory of an instruction in flight, kept from role to role; each opcode derives its own.
class HostLocal {
 public:
  virtual ~HostLocal() = default;
};

// `load` runs once the instruction's waits are over and reads every input but the weights. `compute` touches
// only the local, weights and constants. `store` writes the outputs; signals follow it. A local may be reused
// for another instruction of the same opcode. Roles of different instructions may run at the same time.
class HostHandler {
 public:
  virtual ~HostHandler() = default;
  virtual std::unique_ptr<HostLocal> make_local() const = 0;
  // True once the input that the caller provides during the launch is available. The interpreter asks after
  // the waits are over, and calls `load` only after that.
  virtual bool has_input_of_caller(const Instruction&, const HostMemory&) const { return true; }
  virtual void load(const Instruction&, const HostMemory&, HostLocal&) const = 0;
  virtual void compute(const Instruction&, const HostMemory&, HostLocal&) const = 0;
  virtual void store(const Instruction&, const HostMemory&, HostLocal&) const = 0;
};

// The instruction set as the host interpreter sees it: opcodes index `handlers`. The VM itself knows no
// opcode by name.
struct HostIsa {
  std::span<const HostHandler* const> handlers;
  // Returns why a record may not run in this program, or "": unknown opcode, operand out of range, wrong
  // tensor.
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
};

}  // namespace serval
