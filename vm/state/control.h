// Progress of a launch, a part of the state block.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kKeepRunning = 0xffffffff;

// `advance` writes it at the end of each pass; SMs read `last_pass` at the gate before the next pass.
// `last_pass` is written once a launch, so an SM that reads it late (after a later pass has decided) still
// runs the same passes as the others.
struct PassControl {
  uint32_t passes_done = 0;           // in this launch; also the index of the pass in flight
  uint32_t passes_wanted = 0;         // set by the host, 1 to launch_passes() of the program (output.h)
  uint32_t last_pass = kKeepRunning;  // the launch ends after this pass
  uint32_t stopped_by_host = 0;
};

}  // namespace serval
