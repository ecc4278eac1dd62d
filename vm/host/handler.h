// How the host interpreter runs an opcode: the three roles that the GPU gives to its loader, consumer and
// storer warps.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "vm/host/memory.h"
#include "vm/instruction.h"
#include "vm/program.h"

namespace serval {

// What an instruction in flight holds on to between its roles; each opcode derives its own.
class HostLocal {
 public:
  virtual ~HostLocal() = default;
};

// `load` may run once the instruction's waits are satisfied and reads every input but the weights; `compute`
// touches the local and what never changes (weights and constants); `store` writes the outputs. Signals
// follow `store`. A local may be used again for another instruction of the same opcode. Roles of different
// instructions may run at the same time.
class HostHandler {
 public:
  virtual ~HostHandler() = default;
  virtual std::unique_ptr<HostLocal> make_local() const = 0;
  // Whether the input is there that the caller gives while the launch runs; `load` is not called before. The
  // interpreter asks once the waits are satisfied.
  virtual bool has_input_of_caller(const Instruction&, const HostMemory&) const { return true; }
  virtual void load(const Instruction&, const HostMemory&, HostLocal&) const = 0;
  virtual void compute(const Instruction&, const HostMemory&, HostLocal&) const = 0;
  virtual void store(const Instruction&, const HostMemory&, HostLocal&) const = 0;
};

// The instruction set as the host interpreter sees it; opcodes index `handlers`. The VM knows no opcode by
// name.
struct HostIsa {
  std::span<const HostHandler* const> handlers;
  // Why a record may not run on this program ("" if it may): unknown opcode, operand out of range, wrong
  // tensor.
  std::string (*check)(const Program&, const Instruction&);
  const char* (*name)(uint16_t opcode);
};

}  // namespace serval
