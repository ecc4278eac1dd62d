// One running request: how far it is, the text it has made, and what a pass needs to know of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/runtime/kv_allocator.h"
#include "engine/runtime/planner.h"
#include "engine/runtime/request.h"
#include "engine/runtime/stop_matcher.h"
#include "engine/runtime/text_codec.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

// Not thread-safe.
class Sequence {
 public:
  using Clock = std::chrono::steady_clock;

  // `lease` has reserved the blocks of request.positions(). `load_ms` is passed on to the response.
  Sequence(uint64_t handle, PreparedRequest request, std::unique_ptr<TextStream> text, KvLease lease,
           double load_ms);

  uint64_t handle() const { return handle_; }
  bool finished() const { return response_.finish != Finish::kNone; }
  // It has ended and the program does not know it: it would go on in the launch in flight.
  bool ended_by_host() const;
  SequenceProgress progress() const;
  int32_t token_at(uint32_t position) const;
  // What the state block must hold for it: sampling parameters, stop tokens and history.
  const SequenceSlot& slot() const { return slot_; }

  // Takes the KV blocks for the positions up to `last`, or up to the sequence's own last one where that is
  // less.
  void hold_blocks_to(uint32_t last);
  std::span<const int32_t> blocks() const { return lease_.blocks(); }

  // `tokens` more positions of the prompt are in the KV cache.
  void prompt_computed(uint32_t tokens);
  // A token was sampled for it. Throws Error(kDeviceFault) if it is not the one that comes next. Nothing if
  // its logits were not finite: then the sequence ends with an error, and text that was held back is dropped.
  std::optional<TokenEvent> accept(const OutputToken& output);
  // Ends it; text that was held back is dropped, so that the response has what the events had.
  void cancel();
  // Its blocks go back: only when no launch that knows it is in flight.
  Response take();

 private:
  uint32_t length() const;  // tokens, prompt included
  void remember(int32_t token);
  std::string text_of(int32_t token, Finish finish_without_stop);
  Finish finish_of(FinishReason reason) const;
  void fail(std::string error);
  void check_output(const OutputToken& output) const;

  uint64_t handle_;
  PreparedRequest request_;
  std::unique_ptr<TextStream> text_;
  StopMatcher matcher_;
  KvLease lease_;
  SequenceSlot slot_;
  uint32_t computed_ = 0;
  Response response_;
  Clock::time_point joined_;
  Clock::time_point first_token_;
};

}  // namespace serval
