// Reads lines from a terminal or a pipe, and reports signals that arrive while waiting for them.
#pragma once

#include <string>
#include <string_view>

#include "engine/cli/input/signals.h"

namespace serval::cli {

inline constexpr size_t kMaxLineBytes = 1 << 20;

// Only one may exist at a time. While it lives, signals are deferred (DeferScope) and reported by read().
class LineReader {
 public:
  enum class Event {
    kLine,
    kEnd,        // end of the input, or Ctrl-D on an empty line
    kDiscarded,  // Ctrl-C discarded the typed line
    kInterrupt,  // Ctrl-C on an empty line, or SIGINT while a pipe is read
    kTerminate,  // SIGTERM
  };
  struct Result {
    Event event = Event::kEnd;
    std::string line;  // UTF-8, without the newline; invalid bytes are replaced by U+FFFD
  };

  LineReader();
  bool interactive() const { return interactive_; }

  // Prints the prompt to stderr if interactive. Throws Error(kRuntime) if stdin cannot be read or a line is
  // longer than kMaxLineBytes.
  Result read(std::string_view prompt);

 private:
  bool take_line(std::string* line);
  Result on_signal();
  Result at_end();
  bool fill();

  DeferScope signals_pend_;
  bool interactive_;
  std::string buffer_;
};

}  // namespace serval::cli
