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
  // `includes_stop`: the text ends after the stop string instead.
  explicit StopMatcher(std::vector<std::string> stops, bool includes_stop = false)
      : stops_(std::move(stops)), includes_stop_(includes_stop) {}

  // Adds a piece and returns the text that cannot be part of a stop string. Returns nothing once stopped().
  std::string push(std::string_view piece);
  // Call at the end of a text without a stop string. Returns the text that was held back.
  std::string flush();
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string; empty before stopped()

 private:
  size_t held_back() const;

  std::vector<std::string> stops_;
  bool includes_stop_;
  std::string held_, matched_;
  bool stopped_ = false;
};

}  // namespace serval
