// The work of the engine's thread: sequences join, a launch runs, tokens are delivered, sequences leave.
// While a launch runs, the next one is planned from the state that this one is expected to leave, so that the
// backend does not wait for the host between the two.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "engine/backend/backend.h"
#include "engine/core/channel.h"
#include "engine/core/delivery.h"
#include "engine/core/draft_model.h"
#include "engine/core/expiry.h"
#include "engine/core/kv_block_pool.h"
#include "engine/core/launch_planner.h"
#include "engine/core/pass_state.h"
#include "engine/core/planned_launch.h"
#include "engine/core/planner.h"
#include "engine/core/running_sequences.h"
#include "engine/core/sequence.h"
#include "engine/core/wait_queue.h"

namespace serval {

struct PassLoopOptions {
  uint32_t max_sequences = 0;  // limit of running sequences; 0: as many as the backend's rows and slots allow
  uint64_t hash_seed = 0;      // for the KV block pool
  uint64_t fault_at_launch = 0;  // number of the launch that fails like a faulty device; 0: none
  TimePoint (*now)() = std::chrono::steady_clock::now;
  DraftRule drafts = {};  // of sequences whose requests allow drafts
  // A model that makes these drafts, in place of the n-grams of the rule; must outlive the loop. Null: none.
  Backend* draft_model = nullptr;
  float draft_p_min = 0;  // DraftModelOptions::p_min
};

// Owns the sequences and the KV blocks, and has sole use of the backend while it lives. One thread at a time.
class PassLoop {
 public:
  // Throws Error(kOutOfMemory) if the KV cache has fewer blocks than one full context needs.
  PassLoop(Backend& backend, std::shared_ptr<CoreSignals> signals, const PassLoopOptions& options);
  PassLoop(const PassLoop&) = delete;
  PassLoop& operator=(const PassLoop&) = delete;
  ~PassLoop();

  // Queues the sequence after all earlier ones of the same priority.
  void add(std::unique_ptr<Sequence> sequence);
  // Runs one launch of the running sequences, after those that can join have joined. The launch ends when
  // sequences need something from the host, when a place becomes free that a waiting sequence can take, when
  // a sequence is cancelled or, while there is room, when CoreSignals::arrived is set. If its results are as
  // expected, the tokens of its last pass are delivered during the next step, after that step's launch has
  // begun. Errors of the backend end the running sequences. Returns false if no sequence runs.
  bool step();
  // Ends all sequences, running and waiting.
  void end_all(Finish finish);
  // Forgets the keys and values that no sequence holds.
  void clear_cache() { pool_.drop_kept(); }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  bool has_room() const { return running_.has_room(); }
  uint32_t max_sequences() const { return limits_.max_sequences; }
  EngineStats stats() const;

 private:
  // Between launches.
  void end_expired();
  void drop_plan();
  void fail_running(const std::exception_ptr& failure);

  // A launch.
  void take_plan();
  void with_draft_model(const std::function<void(DraftModel&)>& call);
  void launch();
  void run_launch();
  void after_pass(uint32_t pass);
  void defer(const PassOutput& output);
  static void end_shares(PlannedLaunch& launch);
  bool launch_is_stale(TimePoint now);
  void give_up(const std::exception_ptr& failure);

  // The launch after the one in flight.
  void while_running();
  void plan_ahead();
  bool is_as_expected(const PassOutput& output) const;
  void deliver_deferred();

  Backend& backend_;
  const std::shared_ptr<CoreSignals> signals_;
  TimePoint (*const now_)();
  const uint64_t fault_at_launch_;
  const DraftRule drafts_;
  const PlannerLimits limits_;
  KvBlockPool pool_;
  std::unique_ptr<DraftModel> draft_model_;  // may be null
  PassState state_;
  Expiry expiry_;
  WaitQueue waiting_;
  RunningSequences running_;
  LaunchPlanner planner_;
  Delivery delivery_;

  std::optional<TimePoint> launch_ended_;  // when the last launch ended, if the loop has not waited since
  // The launch in flight.
  PlannedLaunch current_;
  uint32_t passes_done_ = 0;
  std::exception_ptr failure_;  // thrown during the launch by what the backend calls
  // The next launch, if the one in flight leaves what is expected. Between launches both are set, or neither.
  std::optional<PlannedLaunch> next_;
  std::optional<DeferredOutput> deferred_;
  EngineStats stats_;  // of launches; the parts of the loop have counts of their own
};

}  // namespace serval
