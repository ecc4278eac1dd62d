// Lines a person types, or that come through a pipe; signals while waiting for them.
#pragma once

#include <string>
#include <string_view>

#include "engine/cli/input/signals.h"

namespace serval::cli {

inline constexpr size_t kMaxLineBytes = 1 << 20;

// One at a time. While it lives, signals are pending (DeferScope): this is where they are asked for.
class LineReader {
 public:
  enum class Event {
    kLine,
    kEnd,        // end of the input, or Ctrl-D on an empty line
    kDiscarded,  // Ctrl-C: what was typed is forgotten
    kInterrupt,  // Ctrl-C where nothing was typed, or SIGINT while a pipe is read
    kTerminate,  // SIGTERM
  };
  struct Result {
    Event event = Event::kEnd;
    std::string line;  // UTF-8, without its end; broken bytes are U+FFFD
  };

  LineReader();
  bool interactive() const { return interactive_; }

  // A person sees the prompt, on stderr. Throws Error(kRuntime) if stdin cannot be read or a line is longer
  // than kMaxLineBytes.
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
