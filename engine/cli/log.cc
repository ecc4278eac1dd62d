#include "engine/cli/log.h"

#include <unistd.h>

#include "fmt/format.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

#include "engine/cli/progress.h"

namespace serval::cli {
namespace {

constexpr const char* kPattern = "serval: %v";

// stderr, where a progress bar may stand in the way. What cannot be written is lost, as there is nowhere to
// say so.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    erase_progress();
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }
  void flush_() override {}
};

std::string escape_controls(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 || byte == 0x7f;
    out += control ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

}  // namespace

void start_log() {
  auto logger = std::make_shared<spdlog::logger>("serval", std::make_shared<StderrSink>());
  logger->set_pattern(kPattern);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
}

void log_debug(const std::string& line) {
  spdlog::debug("{}", line);
}
void log_info(const std::string& line) {
  spdlog::info("{}", line);
}
void log_warning(const std::string& line) {
  spdlog::warn("warning: {}", line);
}
void log_error(const std::string& line) {
  spdlog::error("error: {}", escape_controls(line));
}

}  // namespace serval::cli
