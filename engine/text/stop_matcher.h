// Finds stop strings across token boundaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace serval {

// Takes text in pieces and returns it, holding back the end only while it may be the beginning of a stop
// string. The stop string that is complete first ends the text before its first byte; if two end at the same
// byte, the longer one does. The result does not depend on the division into pieces. Stop strings must be
// valid UTF-8 and not empty; then returned text ends at a character boundary if the pieces do.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds a piece and returns the text that cannot be part of a stop string. Returns nothing once stopped().
  std::string push(std::string_view piece);
  // Call at the end of a text without a stop string. Returns the text that was held back.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace serval
