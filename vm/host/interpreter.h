// The host interpreter, `fast` mode: CPU threads stand in for SMs and run the same queues with the same
// counters. Where a program has several devices, they are groups of the threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "vm/events.h"
#include "vm/host/handler.h"
#include "vm/host/memory.h"
#include "vm/program.h"

namespace serval {

struct HostOptions {
  uint32_t threads = 1;
  double stall_timeout_s = 30;  // no instruction running and none finished for this long is a fault
};

// Binds a program to memory and runs launches of it. Counters start at zero and count on from launch to
// launch. Not thread-safe, but for what `run` itself starts.
class HostInterpreter {
 public:
  // The program and the handlers must outlive it. Throws Error(kRuntime) if the program's structure or a
  // record's operands do not check, or a tensor is not bound.
  HostInterpreter(const Program& program, const HostIsa& isa, HostMemory memory, const HostOptions& options);
  ~HostInterpreter();

  // Runs passes until the program's control says which is the last, calling `on_pass(p)` on this thread after
  // pass p. Returns the passes run. Throws Error(kDeviceFault) naming SM, instruction and counter when
  // nothing moves any more, and whatever on_pass throws; after either, counters are zeroed, and the state is
  // as the launch left it.
  uint32_t run(const std::function<void(uint32_t)>& on_pass);

  // From the next run on, records events into rings for at least `events_of_ring` of each role of each SM; 0:
  // no more. A launch begins with empty rings. With a global queue, an SM is a thread.
  void record(uint32_t events_of_ring);
  // Of the last run, which recorded.
  const EventRings& events() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval
