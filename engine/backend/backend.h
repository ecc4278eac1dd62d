// Runs programs: the host interpreter, or the persistent kernel on a GPU. The engine fills the state block
// and launches passes; it knows nothing else of either.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "models/checkpoint/weight_source.h"
#include "models/model.h"
#include "vm/base/error.h"
#include "vm/events.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Parameters of a launch that are not in the state block.
struct Launch {
  uint32_t passes = 1;  // at most
  // Rows of the first pass are pieces of prompts, which are computed in the prompts' arithmetic class
  // (engine/compile/program_set.h).
  bool reads_prompts = false;
  // prepare() was called for this launch, or for one with more passes that is otherwise equal. Since then the
  // state has changed only in the tokens of its active rows and in histories.
  bool is_prepared = false;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // The program that ran last. Before the first run: the one for the most rows, or for the fewest if programs
  // are compiled in the background. A backend may have several programs over the same tensors, and each
  // launch runs one of them (engine/compile/program_set.h). All have the same limits.
  virtual const Program& program() const = 0;

  // The host's copy of the state, including the block table. Write it only between launches, or during one
  // after run() has called on_begun. After a launch without on_begun, rows, slots and control contain what
  // the program left in them. Output and top always do: in on_pass read only these, and only what completed
  // passes wrote. For each token of a slot with masks, a launch waits for the token's mask
  // (StateBlock::publish_mask), at most the stall timeout. As soon as a token is delivered, the next token's
  // mask may be written.
  virtual StateBlock& state() = 0;
  // The limits in state(), those of the largest program.
  const StateLimits& limits() { return state().limits; }
  uint32_t blocks_per_sequence() { return state().layout.blocks_per_sequence; }
  // Rows of the largest pass that may have drafts (PassRow::drafts): passes of as many rows add in the same
  // order as a pass of one row, so drafts do not show in the results. 0: none may.
  virtual uint32_t draft_rows() const { return 0; }

  // Does the part of the next launch that does not depend on its rows' tokens, and checks the state. Call it
  // between launches, or during one after on_begun. Throws the errors that run() would throw. Does not wait.
  virtual void prepare(const Launch& /*launch*/) {}

  // Runs up to `launch.passes` (<= launch_passes() of the program's rows) passes from the current state.
  // Returns when they are done, when no row is active any more, or after request_stop(). A backend that
  // checks each pass runs one pass. Calls `on_pass(p)` (may be empty) on this thread, in order, once
  // output[p] is complete. Calls `on_begun()`, if given, once on this thread and before any on_pass, when the
  // launch has copied what it needs of the state: from then on the state may be written for the next launch.
  // on_begun must not throw. Waits for a program that is still being compiled. Throws the compilation's
  // errors, and Error(kDeviceFault) with the report of the interpreter or of the device's driver.
  virtual void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
                   const std::function<void()>& on_begun = {}) = 0;
  // Ends the current launch after the current pass. May be called on any thread and in signal handlers. run()
  // clears it.
  virtual void request_stop() noexcept = 0;

  // Whether update_weights() is supported.
  virtual bool updates_weights() const { return false; }
  // Replaces the weights that the source has (models/checkpoint/tensor_weights.h), in all programs and on all
  // ranks: they then have the bits that loading them gives. `model` is the one that the backend was made for.
  // Call it between launches. The KV cache keeps what the old weights computed. Throws Error(kOutOfMemory),
  // before anything has changed, and Error(kDeviceFault), after which weights are undefined.
  virtual void update_weights(const Model& /*model*/, const WeightSource& /*source*/) {
    throw Error(ErrorKind::kRuntime, name() + ": weights cannot be replaced in this backend");
  }

  // Logits of a row that wanted them in the last pass: [vocabulary], fp32. Valid until the next run().
  virtual std::span<const float> logits(int row) = 0;

  // Duration of the last run's GPU kernel in microseconds; none without a GPU.
  virtual std::optional<double> kernel_us() const { return std::nullopt; }
  // Measures the memory bandwidth of a program that only reads, in 1e9 bytes per second. Slow. None without a
  // GPU.
  virtual std::optional<double> stream_limit_gb_per_s() { return std::nullopt; }
  // Fills the KV cache with arbitrary finite values, as if sequences had been read, to measure long contexts.
  // Throws Error(kRuntime) if the backend cannot.
  virtual void fill_cache() { throw Error(ErrorKind::kRuntime, name() + ": has no KV cache to fill"); }

  // From the next run on, records events (vm/events.h) into rings of at least `events_of_ring` events each; 0
  // stops recording. A backend may record more detail than requested. Throws Error(kRuntime) if it cannot
  // record.
  virtual void record(uint32_t /*events_of_ring*/, RecordingDetail = RecordingDetail::kMoments) {
    throw Error(ErrorKind::kRuntime, name() + ": this backend does not record events");
  }
  // Events of the last run, if it recorded; valid until the next.
  virtual const EventRings* events() { return nullptr; }
};

}  // namespace serval
