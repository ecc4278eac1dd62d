// What the engine's thread does: sequences join, a launch runs, tokens are handed out, sequences leave. While
// a launch runs the next one is planned, from what this one is expected to leave, so that the backend need
// not wait for the host between the two.
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
  uint32_t max_sequences = 0;    // that run together; 0, and at most: as the backend's rows and slots allow
  uint64_t hash_seed = 0;        // of the KV block pool
  uint64_t fault_at_launch = 0;  // the number of the one that fails, as a device's would; 0: none
  TimePoint (*now)() = std::chrono::steady_clock::now;
};

// Owns the sequences, the KV blocks and, while it lives, the backend. One thread at a time.
class PassLoop {
 public:
  // Throws Error(kOutOfMemory) where the KV cache has not the blocks of one full context.
  PassLoop(Backend& backend, std::shared_ptr<CoreSignals> signals, const PassLoopOptions& options);
  PassLoop(const PassLoop&) = delete;
  PassLoop& operator=(const PassLoop&) = delete;
  ~PassLoop();

  // Waits from now on, behind all that came before with the same priority.
  void add(std::unique_ptr<Sequence> sequence);
  // One launch of the sequences that run, after those that can have joined. It ends when they need something
  // from the host, a place came free that another waits for, a sequence is cancelled or, while there is room,
  // CoreSignals::arrived is set. Where it has left what was expected, the tokens of its last pass are handed
  // out in the next step, whose launch comes first. Errors of the backend end the sequences that run. False
  // if there is none.
  bool step();
  // Ends all there are.
  void end_all(Finish finish);

  bool idle() const { return running_.empty() && waiting_.empty(); }
  bool has_room() const { return running_.size() < limits_.max_sequences; }
  uint32_t max_sequences() const { return limits_.max_sequences; }
  EngineStats stats() const;

 private:
  using Running = std::vector<std::unique_ptr<Sequence>>;
  // What a pass has left.
  struct PassOutput {
    uint32_t pass = 0;
    TimePoint ended;
    std::span<const OutputToken> tokens;  // of rows of the state
    std::span<const TopTokens> top;
  };
  // The same of a launch's last pass, to be handed out while the next launch runs.
  struct PutOff {
    PlannedLaunch launch;
    uint32_t pass = 0;
    TimePoint ended;
    std::vector<OutputToken> tokens;
    std::vector<TopTokens> top;
    PassOutput output() const { return {pass, ended, tokens, top}; }
  };

  // Between launches (pass_loop.cc), and while one is in flight that the next one follows at once.
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

  // During one (launch.cc).
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
  uint32_t followers_ = 0;  // that wait for their leader's prompt
  Running running_;         // in the order of service
  // What is planned for: sequences that run, in the order of service, and how far they will be by then.
  std::vector<Sequence*> planned_;
  std::vector<SequenceView> views_;
  std::optional<TimePoint> next_deadline_;  // no sequence has an earlier one
  // What the head of the queue needs to join, as far as it has been found out.
  struct Refusal {
    ServiceOrder order;
    uint32_t available = 0;  // it was refused with these
  };
  std::optional<Refusal> refusal_;

  std::optional<TimePoint> launch_ended_;  // the last one, if nothing has been waited for since
  // Of the launch in flight.
  PlannedLaunch current_;
  bool some_finished_ = false, some_ended_by_host_ = false;
  uint32_t passes_done_ = 0;
  // What is to follow it, if it leaves what is expected. Between launches there is both or none of these.
  std::optional<PlannedLaunch> next_;
  std::optional<PutOff> put_off_;
  // Held: their readers and sequences may be gone before they are flushed.
  std::vector<std::shared_ptr<EventQueue>> to_flush_;
  EngineStats stats_;
};

}  // namespace serval
