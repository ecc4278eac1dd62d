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

// Runs the same programs as HostInterpreter, but overlaps load, compute and store of different instructions
// as a GPU does: each SM has several instructions in flight, and each role takes them in order. A seed always
// gives the same interleaving. Odd seeds are adversarial: they hold one instruction back as long as anything
// else can run. A program whose counters order all its accesses gives the same bits for every seed.
class ReplayInterpreter {
 public:
  // Parameters and errors are those of HostInterpreter. Throws Error(kRuntime).
  ReplayInterpreter(const Program& program, const HostIsa& isa, HostMemory memory, uint64_t seed);
  ~ReplayInterpreter();

  // Runs passes like HostInterpreter::run. Throws Error(kDeviceFault), which names the seed, if the program
  // cannot continue.
  uint32_t run(const std::function<void(uint32_t)>& on_pass);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval
