#include "engine/core/running_sequences.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "vm/layout/kv_cache.h"

namespace serval {

size_t RunningSequences::admit(WaitQueue& waiting) {
  size_t joined = 0;
  for (; !waiting.empty() && try_to_join(waiting.first()); ++joined) {
    std::unique_ptr<Sequence> sequence = waiting.take_first();
    const auto position =
        std::upper_bound(sequences_.begin(), sequences_.end(), sequence->order(),
                         [](const ServiceOrder& order, const auto& other) { return order < other->order(); });
    sequences_.insert(position, std::move(sequence));
  }
  return joined;
}

// Looks up the prompt in the KV cache only if the sequence could not join without; and then again only when
// more blocks are available.
bool RunningSequences::has_blocks_for(const Sequence& sequence, uint32_t blocks) {
  if (may_join(size(), pool_.available(), limits_, blocks)) return true;
  const bool refused = refusal_ && refusal_->order == sequence.order();
  if (refused && pool_.available() <= refusal_->available) return false;
  refusal_ = {sequence.order(), pool_.available()};
  if (!sequence.reuses_prefix()) return false;
  const auto prompt = sequence.tokens().first(sequence.reuse_limit());
  return may_join(size(), pool_.available(), limits_,
                  blocks - pool_.match(domains_.of(sequence.cache_salt()), prompt).held);
}

bool RunningSequences::try_to_join(Sequence& sequence) {
  if (!has_room()) return false;
  const uint32_t blocks = blocks_for_tokens(sequence.length());
  if (!has_blocks_for(sequence, blocks)) return false;
  auto chain = std::make_unique<KvChain>(pool_, domains_.of(sequence.cache_salt()));
  const uint32_t reused =
      sequence.reuses_prefix() ? chain->reuse(sequence.tokens(), sequence.reuse_limit()) : 0;
  [[maybe_unused]] const bool enough = chain->grow_to(blocks);
  assert(enough);
  sequence.join(state_.take_slot(), std::move(chain), reused, now_());
  state_.write_slot(sequence);
  counts_.prompt_tokens += sequence.length();
  counts_.cached_tokens += reused;
  return true;
}

// Leaves its computed blocks in the cache for other sequences.
void RunningSequences::release(Sequence& sequence) {
  if (draft_model_ != nullptr) draft_model_->leave(sequence);
  state_.give_back_slot(sequence.slot());
  if (sequence.reuses_prefix() && !sequence.failed())
    sequence.chain().leave(sequence.tokens(), sequence.computed());
}

void RunningSequences::preempt(uint32_t index, WaitQueue& waiting) {
  std::unique_ptr<Sequence> sequence = std::move(sequences_[index]);
  sequences_.erase(sequences_.begin() + index);
  release(*sequence);
  sequence->leave();
  ++counts_.preemptions;
  waiting.put_back(std::move(sequence));
}

void RunningSequences::retire(WaitQueue& waiting) {
  bool some_left = false;
  for (auto& sequence : sequences_) {
    if (sequence->reuses_prefix() && !sequence->failed())
      sequence->chain().publish(sequence->tokens(), sequence->computed());
    if (sequence->finished() || sequence->prompt_is_read()) waiting.release_followers(*sequence);
    if (!sequence->finished() || sequence->share() != nullptr) continue;
    release(*sequence);
    sequence.reset();
    some_left = true;
  }
  if (some_left) std::erase(sequences_, nullptr);
}

}  // namespace serval
