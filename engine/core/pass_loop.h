// The work of the engine's thread: sequences join, a launch runs, tokens are delivered, sequences leave.
// While a launch runs, the next one is planned from the state that this one is expected to leave, so that the
// backend does not wait for the host between the two.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/channel.h"
#include "engine/core/kv_block_pool.h"
#include "engine/core/pass_state.h"
#include "engine/core/planned_launch.h"
#include "engine/core/planner.h"
#include "engine/core/sequence.h"

namespace serval {

struct PassLoopOptions {
  uint32_t max_sequences = 0;  // limit of running sequences; 0: as many as the backend's rows and slots allow
  uint64_t hash_seed = 0;      // for the KV block pool
  uint64_t fault_at_launch = 0;  // number of the launch that fails like a faulty device; 0: none
  TimePoint (*now)() = std::chrono::steady_clock::now;
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

  bool idle() const { return running_.empty() && waiting_.empty(); }
  bool has_room() const { return running_.size() < limits_.max_sequences; }
  uint32_t max_sequences() const { return limits_.max_sequences; }
  EngineStats stats() const;

 private:
  using Running = std::vector<std::unique_ptr<Sequence>>;
  // Results of a pass.
  struct PassOutput {
    uint32_t pass = 0;
    TimePoint ended;
    std::span<const OutputToken> tokens;  // for rows of the state
    std::span<const TopTokens> top;
  };
  // Results of a launch's last pass, delivered while the next launch runs.
  struct PutOff {
    PlannedLaunch launch;
    uint32_t pass = 0;
    TimePoint ended;
    std::vector<OutputToken> tokens;
    std::vector<TopTokens> top;
    PassOutput output() const { return {pass, ended, tokens, top}; }
  };

  // Between launches (pass_loop.cc), and in while_running() during a launch that follows another at once.
  bool is_to_sweep(TimePoint now) const;
  void sweep();
  std::optional<Finish> reason_to_end(Sequence& sequence, TimePoint now) const;
  void admit();
  bool try_to_join(Sequence& sequence);
  uint32_t blocks_to_join(const Sequence& sequence) const;
  void view_running();
  void look_up_prefixes();
  PassPlan make_plan();
  uint32_t passes_to_decision(uint32_t passes) const;
  PlannedLaunch write(const PassPlan& plan);
  void give_back(uint32_t index);
  static void leave_blocks(Sequence& sequence);
  void wait_again(std::unique_ptr<Sequence> sequence);
  void note_deadline(const Sequence& sequence);
  void retire();
  void fail_running(const std::exception_ptr& failure);
  void release_followers(Sequence& sequence);

  // The launch after the one in flight (plan_ahead.cc).
  void while_running();
  void plan_ahead();
  void view_after_launch();
  bool is_as_expected(const PassOutput& output) const;
  void put_off(const PassOutput& output);
  void hand_out_put_off();
  void drop_plan();

  // During a launch (launch.cc).
  void launch();
  void after_pass(uint32_t pass);
  void give_masks(const PlannedLaunch& launch, const PassOutput& output);
  void release_masks();
  void hand_out(const PlannedLaunch& launch, const PassOutput& output);
  void hand_out_positions(const PlannedLaunch& launch, TimePoint now);
  void hand_out_tokens(const PlannedLaunch& launch, const PassOutput& output);
  bool launch_is_stale(TimePoint now) const;
  void give_up(const std::exception_ptr& failure);
  void post(Sequence& sequence, RequestEvent event);
  void post_end(Sequence& sequence, RequestEvent event);
  void flush_events();

  Backend& backend_;
  const std::shared_ptr<CoreSignals> signals_;
  TimePoint (*const now_)();
  const uint64_t fault_at_launch_;
  PlannerLimits limits_;
  KvBlockPool pool_;
  PassState state_;
  uint64_t arrivals_ = 0;
  std::map<ServiceOrder, std::unique_ptr<Sequence>> waiting_;
  uint32_t followers_ = 0;  // sequences that wait for their leader's prompt
  Running running_;         // in service order
  // Input of the plan: running sequences in service order, and their progress at the time the plan is for.
  std::vector<Sequence*> planned_;
  std::vector<SequenceView> views_;
  std::optional<TimePoint> next_deadline_;  // no sequence has an earlier deadline
  // The last failed attempt of the queue's head to join.
  struct Refusal {
    ServiceOrder order;
    uint32_t available = 0;  // blocks that were available then
  };
  std::optional<Refusal> refusal_;

  std::optional<TimePoint> launch_ended_;  // when the last launch ended, if the loop has not waited since
  // State of the launch in flight.
  PlannedLaunch current_;
  bool some_finished_ = false, some_ended_by_host_ = false;
  uint32_t passes_done_ = 0;
  // The next launch, if the one in flight leaves what is expected. Between launches both are set, or neither.
  std::optional<PlannedLaunch> next_;
  std::optional<PutOff> put_off_;
  // Shared ownership: their readers and sequences may be destroyed before the flush.
  std::vector<std::shared_ptr<EventQueue>> to_flush_;
  EngineStats stats_;
};

}  // namespace serval
