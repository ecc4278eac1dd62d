// Drafts by a small model (docs/speculation.md): another backend with weights, KV cache and programs of its
// own, whose launches alternate with those of the model that it drafts for, the target.
//
// A slot of its state is the target's slot of that number: it has the sequence's sampling parameters and
// draws with the random numbers of the same positions, so a model that computes nearly the same probabilities
// draws nearly always the same tokens. Its KV cache follows the sequence: the tokens that the target has
// accepted are known to be in it, up to a position; from there on it is overwritten.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/kv_block_pool.h"
#include "engine/core/kv_chain.h"
#include "engine/core/kv_domains.h"
#include "engine/core/planned_launch.h"
#include "engine/core/sequence.h"
#include "vm/state/block.h"

namespace serval {

struct DraftModelOptions {
  uint32_t least = 1;      // drafts of a sequence in a pass; fewer are not used
  float p_min = 0;         // the drafts of a pass end before one that is less probable in the draft model
  uint64_t hash_seed = 0;  // for the KV block pool
};

// One thread at a time. Errors of the backend are thrown with "draft model: " before their text.
class DraftModel {
 public:
  // `backend` must outlive it. It has at least as many slots as the target runs sequences.
  DraftModel(Backend& backend, const DraftModelOptions& options);
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  // Before each launch: reads tokens of the sequences that want drafts, in one pass at most, and
  // tells them how many drafts are possible (DraftControl::set_possible).
  void read(std::span<const std::unique_ptr<Sequence>> running);
  // Makes the drafts of a launch that is written to the target's state, all tokens of whose sequences are
  // known, and fills its draft rows. Sequences that get fewer drafts than they have rows leave rows inactive.
  void draft(PlannedLaunch& launch, StateBlock& target);
  // The sequence gives its slot back. Its computed tokens stay in the KV cache for others.
  void leave(const Sequence& sequence);
  // Forgets what no sequence holds: a launch may have written anywhere.
  void drop_kept() { pool_.drop_kept(); }

  double ms() const { return ms_; }  // duration of all its launches

 private:
  // What is in the KV cache of the slot's sequence.
  struct Slot {
    std::unique_ptr<KvChain> chain;  // null: no sequence
    uint32_t computed = 0;           // its first tokens, which the target has accepted
    // The last drafts: they began after `length` tokens, and `passes` passes have read one token each.
    uint32_t length = 0, passes = 0;
  };
  // One sequence's drafts.
  struct Job {
    const LaunchShare* share;
    uint32_t most;  // drafts
    std::vector<int32_t> drafts = {};
    uint32_t passes = 0;
    bool ended = false;
  };

  Slot& slot_of(const Sequence& sequence);
  static void settle(Slot& slot, const Sequence& sequence);
  uint32_t readable(const Sequence& sequence) const;
  void take_rows(const Sequence& sequence, uint32_t end);
  void tell(Sequence& sequence, bool has_blocks) const;
  std::vector<Job> jobs_of(const PlannedLaunch& launch);
  void write_jobs(const std::vector<Job>& jobs);
  void run_jobs(std::vector<Job>& jobs);
  void add_drafts(std::vector<Job>& jobs, std::span<const OutputToken> output);
  void write_slot(const Sequence& sequence, uint32_t length, uint32_t end);
  void write_blocks(const Sequence& sequence);
  void write_row(const Sequence& sequence, uint32_t position, bool draws);
  void finish_rows();
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass);

  Backend& backend_;
  const DraftModelOptions options_;
  const float least_log_probability_;
  KvBlockPool pool_;
  KvDomains domains_;
  std::vector<Slot> slots_;
  uint32_t rows_ = 0;          // of the launch that is being written
  uint32_t rows_written_ = 0;  // by the last launch; later rows are inactive
  double ms_ = 0;
};

}  // namespace serval
