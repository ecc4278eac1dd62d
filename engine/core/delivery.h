// Delivers what a pass has produced: token masks to its sampler, tokens to sequences, events to readers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/channel.h"
#include "engine/core/expiry.h"
#include "engine/core/pass_state.h"
#include "engine/core/planned_launch.h"
#include "engine/core/sequence.h"

namespace serval {

// Results of a pass, in the state block.
struct PassOutput {
  uint32_t pass = 0;  // of the launch
  TimePoint ended;
  std::span<const OutputToken> tokens;  // for rows of the state
  std::span<const TopTokens> top;       // likewise; may be empty if no sequence lists them
};

// A copy of the results of a launch's last pass, which the next launch overwrites.
struct DeferredOutput {
  PlannedLaunch launch;
  uint32_t pass = 0;
  TimePoint ended;
  std::vector<OutputToken> tokens;
  std::vector<TopTokens> top;

  DeferredOutput(PlannedLaunch of, const PassOutput& output);
  PassOutput output() const { return {pass, ended, tokens, top}; }
};

// One thread at a time.
class Delivery {
 public:
  // Counted since construction (EngineStats).
  struct Counts {
    uint64_t finished = 0, generated_tokens = 0;
    uint64_t later_rows = 0;  // rows of passes after their launch's first
    DraftStats drafts;
  };

  // `state` and `expiry` must outlive it. `backend` names the culprit in errors.
  Delivery(PassState& state, Expiry& expiry, std::string backend)
      : state_(state), expiry_(expiry), backend_(std::move(backend)) {}

  const Counts& counts() const { return counts_; }

  // Gives the masks for the next pass of the launch, whose sampler waits for them, even if it was asked to be
  // the last: so masks come before all other work on a pass's tokens.
  void publish_masks(const PlannedLaunch& launch, const PassOutput& output);
  // The launch in flight runs on to the end of its pass; its tokens are dropped.
  void release_masks(const PlannedLaunch& launch);
  // Gives each sequence its token and flushes the events. Throws Error(kDeviceFault) if one is missing.
  void deliver(const PlannedLaunch& launch, const PassOutput& output);
  // Posts the last event of a sequence, which has ended.
  void post_end(Sequence& sequence, RequestEvent event);
  // Hands the posted events to their readers.
  void flush();

  // Sequences that have ended since the flags were last cleared; by_host: the launch in flight does not know.
  struct Ended {
    bool some = false, by_host = false;
  };
  Ended& ended() { return ended_; }

 private:
  void deliver_positions(const PlannedLaunch& launch, const PassOutput& output);
  std::optional<RequestEvent> deliver_scores(const LaunchShare& share, const PassOutput& output);
  void deliver_token(const LaunchShare& share, const PassOutput& output);
  void count_drafts(const LaunchShare& share, uint32_t drafts, uint32_t right, uint32_t pass);
  void post(Sequence& sequence, RequestEvent event);

  PassState& state_;
  Expiry& expiry_;
  const std::string backend_;
  // Shared ownership: their readers and sequences may be destroyed before the flush.
  std::vector<std::shared_ptr<EventQueue>> to_flush_;
  Ended ended_;
  Counts counts_;
};

}  // namespace serval
