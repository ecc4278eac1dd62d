#include "engine/answer/reasoning_tokens.h"

#include <algorithm>

#include "engine/answer/formats.h"

namespace serval {

ReasoningTokens::ReasoningTokens(Reasoning reasoning)
    : place_(reasoning == Reasoning::kNone      ? Place::kAfter
             : reasoning == Reasoning::kMayOpen ? Place::kBefore
                                                : Place::kInside) {}

void ReasoningTokens::add(std::string_view text) {
  if (place_ == Place::kAfter) return;
  ++count_;
  if (place_ == Place::kBefore) return look_for_begin(text);
  starts_.push_back(tail_.size());
  tail_ += text;
  look_for_end();
}

void ReasoningTokens::look_for_begin(std::string_view text) {
  tail_ += text;
  const size_t spaces = std::min(tail_.find_first_not_of(" \n"), tail_.size());
  const std::string_view begin = std::string_view(tail_).substr(spaces, kThinkBegin.size());
  if (begin == kThinkBegin) {
    tail_.erase(0, spaces + kThinkBegin.size());
    place_ = Place::kInside;
    look_for_end();
  } else if (!kThinkBegin.starts_with(begin)) {
    place_ = Place::kAfter;
    count_ = 0;
  }
}

void ReasoningTokens::look_for_end() {
  const size_t end = tail_.find(kThinkEnd);
  if (end != std::string::npos) {
    place_ = Place::kAfter;
    count_ -=
        static_cast<uint32_t>(std::ranges::count_if(starts_, [&](size_t start) { return start >= end; }));
    return;
  }
  if (tail_.size() < kThinkEnd.size()) return;
  const size_t dropped = tail_.size() - (kThinkEnd.size() - 1);
  tail_.erase(0, dropped);
  std::erase_if(starts_, [&](size_t start) { return start < dropped; });
  for (size_t& start : starts_) start -= dropped;
}

}  // namespace serval
