// The host interpreter, `replay` mode: one thread interleaves the roles of instructions in an order that a
// seed picks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "vm/host/handler.h"
#include "vm/host/memory.h"
#include "vm/program.h"

namespace serval {

// Runs the same programs as HostInterpreter, with load, compute and store of different instructions
// overlapping as they do on a GPU: each SM has several instructions in flight, each role takes them in order.
// A seed gives one interleaving, always the same. Every other seed is adversarial: it picks an instruction
// and lets everything else run first whenever something else can. A program whose counters leave nothing to
// chance gives the same bits for all.
class ReplayInterpreter {
 public:
  // As HostInterpreter. Throws Error(kRuntime).
  ReplayInterpreter(const Program& program, const HostIsa& isa, HostMemory memory, uint64_t seed);
  ~ReplayInterpreter();

  // As HostInterpreter::run. A program that cannot go on throws Error(kDeviceFault) naming the seed.
  uint32_t run(const std::function<void(uint32_t)>& on_pass);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval
