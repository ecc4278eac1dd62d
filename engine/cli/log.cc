#include "engine/cli/log.h"

#include "fmt/format.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

#include "engine/cli/progress.h"

namespace serval::cli {
namespace {

constexpr const char* kPattern = "serval: %v";

void write(spdlog::level::level_enum level, const std::string& line) {
  if (!spdlog::should_log(level)) return;
  erase_progress();
  spdlog::log(level, "{}", line);
}

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
  auto logger = std::make_shared<spdlog::logger>("serval", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(kPattern);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void set_log_level(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
}

void log_debug(const std::string& line) {
  write(spdlog::level::debug, line);
}
void log_info(const std::string& line) {
  write(spdlog::level::info, line);
}
void log_warning(const std::string& line) {
  write(spdlog::level::warn, "warning: " + line);
}
void log_error(const std::string& line) {
  write(spdlog::level::err, "error: " + escape_controls(line));
}

}  // namespace serval::cli
