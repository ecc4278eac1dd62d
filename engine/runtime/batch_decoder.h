// Decodes sequences together on a backend: joins, plans passes, launches, hands out tokens, ends.
//
// Between launches the backend's state block holds nothing of value: each launch writes the rows, slots and
// block tables of its own sequences. So any number of decoders may take turns on one backend; they share its
// KV blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/include/serval/engine.h"
#include "engine/runtime/kv_allocator.h"
#include "engine/runtime/planner.h"
#include "engine/runtime/request.h"
#include "engine/runtime/sequence.h"
#include "engine/runtime/text_codec.h"

namespace serval {

// That decode together: each needs a slot of the state and, once it generates, a row of every pass.
uint32_t sequences_together(const StateLimits& limits);

// What decoders of one engine share; outlives them.
struct DecoderContext {
  Backend& backend;
  KvAllocator& kv;
  const TextCodec& text;
  // Counts Engine::cancel(): a sequence that joined under another count is cancelled.
  const std::atomic<uint64_t>& cancel_epoch;
  double load_ms = 0;
};

// One thread at a time, except cancel(); while launch() runs no other decoder of the engine may launch.
class BatchDecoder {
 public:
  // false: end that sequence. An exception ends the launch and goes on to the caller of launch().
  using Sink = std::function<bool(const TokenEvent&)>;

  struct LaunchOptions {
    uint32_t passes = 1;          // at most; 1 while a prompt is unfinished
    bool stop_on_finish = false;  // end the launch when a sequence ends, because another waits for its place
  };

  explicit BatchDecoder(const DecoderContext& context);

  // Handles are 1, 2, … in the order of joining. `epoch` is the cancel_epoch under which the request was
  // made. Throws Error(kOutOfMemory) where max_sequences() run or the blocks it may need are not free.
  uint64_t add(PreparedRequest request, uint64_t epoch);
  bool has_room_for(const PreparedRequest& request) const;

  // Runs passes and hands each token to `sink`, pass by pass and in order of handles. Throws what the backend
  // throws; then no sequence has lost a token that was handed out.
  void launch(const LaunchOptions& options, const Sink& sink);

  size_t max_sequences() const { return cancels_.size(); }  // that run together
  bool idle() const { return running_.empty(); }
  // Any thread, signal handlers included. Before the next pass, or after the one in flight.
  void cancel(uint64_t handle) noexcept;
  // Throws Error(kUsage) where the handle is unknown or still running.
  Response take(uint64_t handle);

 private:
  struct Running {
    Sequence sequence;
    uint64_t epoch;
    size_t cancel_index;  // into cancels_
  };
  // A place from which a sequence learns that it is cancelled. Handles are never used twice, so a cancel()
  // that comes late cancels nothing.
  struct Cancel {
    std::atomic<uint64_t> running{0};
    std::atomic<uint64_t> requested{0};
  };

  bool cancel_wanted(const Running& running) const;
  void cancel_where_wanted();
  void retire_finished();
  PassPlan plan() const;
  void write_state(const PassPlan& plan, uint32_t passes);
  void run_passes(const PassPlan& plan, const LaunchOptions& options, const Sink& sink);
  void finish_prompts(const PassPlan& plan);
  void hand_out(const PassPlan& plan, uint32_t pass, const Sink& sink);
  bool launch_is_stale(const LaunchOptions& options) const;

  DecoderContext context_;
  uint64_t last_handle_ = 0;
  std::vector<Running> running_;  // in order of handles; its index is the slot of a launch
  std::map<uint64_t, Response> finished_;
  std::vector<Cancel> cancels_;  // [max_sequences()]
};

}  // namespace serval
