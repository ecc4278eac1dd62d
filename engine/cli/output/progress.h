// The progress bar: one line on stderr, only on a terminal, erased before any other output.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "vm/base/enum_names.h"

namespace serval::cli {

enum class ProgressMode { kAuto, kOn, kOff };  // auto: on a terminal that is not "dumb"

// "weights  [#########...........]  46 %  1.1 of 2.4 GB", at most kProgressHz times a second. Not
// thread-safe.
class ProgressBar {
 public:
  enum class Measure { kBytes, kSteps };

  explicit ProgressBar(ProgressMode mode);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // done > total or total = 0 is drawn as finished.
  void update(const std::string& label, uint64_t done, uint64_t total, Measure measure);

 private:
  bool shown_;
  std::string label_;
  std::chrono::steady_clock::time_point next_draw_{};
};

// Erases a bar that is on the screen. Safe in a signal handler.
void erase_progress() noexcept;

}  // namespace serval::cli

namespace serval {
template <>
struct EnumNames<cli::ProgressMode> {
  static constexpr EnumName<cli::ProgressMode> kTable[] = {
      {cli::ProgressMode::kAuto, "auto"}, {cli::ProgressMode::kOn, "on"}, {cli::ProgressMode::kOff, "off"}};
};
}  // namespace serval
