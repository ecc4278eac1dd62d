#include "engine/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace serval {
namespace {

struct Match {
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
  bool before(const Match& other) const { return end != other.end ? end < other.end : begin < other.begin; }
};

Match first_match(std::string_view text, const std::vector<std::string>& stops) {
  Match first;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == std::string_view::npos) continue;
    const Match match{begin, begin + stop.size()};
    if (match.before(first)) first = match;
  }
  return first;
}

// Length of the longest end of `text` that is a beginning of `stop`, shorter than `stop` itself.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

size_t StopMatcher::held_back() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) longest = std::max(longest, overlap(held_, stop));
  return longest;
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  const Match match = first_match(held_, stops_);
  stopped_ = match.end != std::string::npos;
  const size_t end = includes_stop_ ? match.end : match.begin;
  const size_t out = stopped_ ? end : held_.size() - held_back();
  std::string text = held_.substr(0, out);
  if (stopped_) {
    matched_ = held_.substr(match.begin, match.end - match.begin);
    held_.clear();
  } else {
    held_.erase(0, out);
  }
  return text;
}

std::string StopMatcher::flush() {
  return std::exchange(held_, {});
}

}  // namespace serval
