// Stop strings, found across the boundaries of tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace serval {

// Text comes in pieces and goes out again, held back only as long as it might be the beginning of a stop
// string. The stop string that is complete first ends the text before its first byte; of two that end
// together, the longer one. The result does not depend on how the text was cut into pieces. Stop strings are
// valid UTF-8 and not empty; so what goes out ends between characters if what comes in does.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that can go out now. Nothing more once stopped().
  std::string push(std::string_view piece);
  // The text has ended without a stop string: what was held back.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace serval
