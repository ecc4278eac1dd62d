// The host interpreter, `fast` mode: CPU threads act as SMs and run the same queues with the same counters.
// In a program for several devices, each device is a group of threads.
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
  double stall_timeout_s = 30;  // a launch without running or finishing instructions for this long is a fault
};

// Binds a program to memory and runs launches of it. Counters start at zero and keep growing from launch to
// launch. Not thread-safe.
class HostInterpreter {
 public:
  // The program and the handlers must outlive it. Throws Error(kRuntime) if the program's structure or a
  // record is invalid, or a tensor is not bound.
  HostInterpreter(const Program& program, const HostIsa& isa, HostMemory memory, const HostOptions& options);
  ~HostInterpreter();

  // Runs passes until the program's control names the last one, and calls on_pass(p) on this thread after
  // pass p. Returns the number of passes. Throws Error(kDeviceFault), which names SM, instruction and
  // counter, if there is no more progress; rethrows exceptions of on_pass. After either, the counters are
  // zeroed and the state stays as the launch left it.
  uint32_t run(const std::function<void(uint32_t)>& on_pass);

  // From the next run on, records events, in rings of at least `events_of_ring` events for each role of each
  // SM. 0: stops recording. A launch begins with empty rings. With a global queue, each thread counts as an
  // SM.
  void record(uint32_t events_of_ring);
  // Events of the last run, which must have recorded.
  const EventRings& events() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval
