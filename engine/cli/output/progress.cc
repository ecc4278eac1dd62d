#include "engine/cli/output/progress.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "fmt/format.h"

namespace serval::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr uint64_t kBarCells = 30;
constexpr std::string_view kEraseLine = "\r\x1b[K";

std::atomic<bool> bar_on_screen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "read in a signal handler");

// Errors are ignored: a missing bar does no harm.
void write_stderr(std::string_view text) noexcept {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

bool stderr_is_a_screen() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::string amounts(uint64_t done, uint64_t total, ProgressBar::Measure measure) {
  if (measure == ProgressBar::Measure::kSteps) return fmt::format("{} of {}", done, total);
  constexpr double kBytesPerMegabyte = 1e6;
  constexpr double kBytesPerGigabyte = 1e9;
  const bool large = static_cast<double>(total) >= kBytesPerGigabyte;
  const double scale = large ? kBytesPerGigabyte : kBytesPerMegabyte;
  return fmt::format("{:.1f} of {:.1f} {}", static_cast<double>(done) / scale,
                     static_cast<double>(total) / scale, large ? "GB" : "MB");
}

}  // namespace

void erase_progress() noexcept {
  if (bar_on_screen.exchange(false)) write_stderr(kEraseLine);
}

ProgressBar::ProgressBar(ProgressMode mode)
    : shown_(mode == ProgressMode::kOn || (mode == ProgressMode::kAuto && stderr_is_a_screen())) {}

ProgressBar::~ProgressBar() {
  erase_progress();
}

void ProgressBar::update(const std::string& label, uint64_t done, uint64_t total, Measure measure) {
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now();
  if (label == label_ && now < next_draw_) return;
  label_ = label;
  next_draw_ = now + kRedrawInterval;

  done = std::min(done, total);
  const double fraction = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<size_t>(fraction * kBarCells);
  const std::string line =
      fmt::format("{}{:<10} [{}{}] {:3.0f} %  {}", kEraseLine, label, std::string(filled, '#'),
                  std::string(kBarCells - filled, '.'), 100 * fraction, amounts(done, total, measure));
  bar_on_screen = true;
  write_stderr(line);
}

}  // namespace serval::cli
