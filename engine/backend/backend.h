// What runs a program: the host interpreter, and on a GPU the persistent kernel. The engine fills the state
// block and launches passes; it knows nothing else of either.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "vm/base/error.h"
#include "vm/events.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// What of a launch does not show in the state.
struct Launch {
  uint32_t passes = 1;  // at most
  // Rows of the first pass are pieces of prompts, which are computed in the arithmetic of prompts
  // (engine/compile/program_set.h).
  bool reads_prompts = false;
  // prepare() was called for it, or for more passes of the same; since then the state has only got tokens of
  // its active rows and of histories.
  bool is_prepared = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // The one that ran last; before the first run, the one for most rows, or for fewest where programs are
  // compiled in the background. A backend may hold several over the same tensors, of which a launch runs one
  // (engine/compile/program_set.h). All have the same limits.
  virtual const Program& program() const = 0;

  // The host's copy of the state, block table included. Write it between launches only, or during one from
  // run()'s on_begun on; after a launch without on_begun, rows, slots and control are what the program left
  // there. Output and top are what it left there in any case: in on_pass, read nothing else, and of these
  // what passes handed out have. A launch waits, no longer than the stall timeout, for
  // the mask of each token of a slot that has masks (StateBlock::give_mask). Once a token is handed out, the
  // next token's mask may be written.
  virtual StateBlock& state() = 0;
  // Of the state: those of the largest program.
  const StateLimits& limits() { return state().limits; }
  uint32_t blocks_per_sequence() { return state().layout.blocks_per_sequence; }

  // Does of the next launch beforehand what does not depend on the tokens of its rows, and checks the state.
  // Between launches, or during one from on_begun on. Throws as run(), which would say the same; waits for
  // nothing.
  virtual void prepare(const Launch& /*launch*/) {}

  // Runs up to `launch.passes` (<= launch_passes() of the program's rows) passes from the state as it stands
  // and returns when they are done, when no row is active any more, or after request_stop(); one that checks
  // each pass runs one. `on_pass(p)` is called on this thread once output[p] is complete, in order; it may be
  // empty. `on_begun()`, if there is one, is called once on this thread, before any on_pass, when the launch
  // has taken what it needs of the state: from then on the state may be written for the next one. It must not
  // throw. Waits for the program where it is still being compiled. Throws what that throws, and
  // Error(kDeviceFault) with the interpreter's report or what the device's driver says.
  virtual void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                   const std::function<void()>& on_begun = {}) = 0;
  // Ends the launch in flight after the pass in flight. Any thread, signal handlers included. Cleared by
  // run().
  virtual void request_stop() noexcept = 0;

  // Logits of a row that wanted them in the last pass: [vocabulary], fp32. Valid until the next run().
  virtual std::span<const float> logits(int row) = 0;

  // Of the last run: microseconds that the GPU's kernel took. None where there is no GPU.
  virtual std::optional<double> kernel_us() const { return std::nullopt; }
  // Measures what memory gives a program that does nothing but read, in 1e9 bytes a second. Slow; none where
  // there is no GPU.
  virtual std::optional<double> stream_limit_gb_per_s() { return std::nullopt; }
  // Fills the KV cache with arbitrary finite values, as if sequences had been read: to measure long contexts.
  // Throws Error(kRuntime) where the backend cannot.
  virtual void fill_cache() { throw Error(ErrorKind::kRuntime, name() + ": has no KV cache to fill"); }

  // From the next run on, records events (vm/events.h) into rings for at least `events_of_ring` each; 0: no
  // more. A backend may record in more detail than it is asked to. Throws Error(kRuntime) where it cannot.
  virtual void record(uint32_t /*events_of_ring*/, RecordingDetail = RecordingDetail::kMoments) {
    throw Error(ErrorKind::kRuntime, name() + ": this backend does not record events");
  }
  // Of the last run, if it recorded; valid until the next.
  virtual const EventRings* events() { return nullptr; }
};

}  // namespace serval
