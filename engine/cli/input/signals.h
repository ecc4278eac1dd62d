// SIGINT, SIGTERM and SIGPIPE.
//
// By default SIGINT and SIGTERM end the program at once with status 130 or 143. While a CancelScope lives
// they cancel the engine's run instead, and the command ends normally (a chat goes on); a second signal ends
// the program at once. SIGPIPE is ignored: write_stdout reports it.
#pragma once

#include "serval/engine.h"

namespace serval::cli {

// A signal that was ignored when the program started (nohup, a shell's background job) stays ignored.
void install_signal_handlers();

// Returns SIGINT or SIGTERM if one has arrived and was not taken, else 0. Any thread.
int pending_signal() noexcept;
// Returns the pending signal like pending_signal(), and clears it.
int take_signal() noexcept;

// While it lives, a signal for which nothing else is arranged ends the program with status 0: nothing is
// lost. One at a time.
class QuitScope {
 public:
  QuitScope() noexcept;
  ~QuitScope();
  QuitScope(const QuitScope&) = delete;
  QuitScope& operator=(const QuitScope&) = delete;
};

inline constexpr int kSignalExitBase = 128;  // a shell's convention: 128 + the signal's number

// While it lives, a signal is pending and cancels `engine`'s run. Only one may exist at a time.
class CancelScope {
 public:
  explicit CancelScope(Engine& engine) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
};

// While it lives, a signal is only pending; descriptor() is readable until take_signal().
class DeferScope {
 public:
  DeferScope() noexcept;
  ~DeferScope();
  DeferScope(const DeferScope&) = delete;
  DeferScope& operator=(const DeferScope&) = delete;
  int descriptor() const noexcept;
};

}  // namespace serval::cli
