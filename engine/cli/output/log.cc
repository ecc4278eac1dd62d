#include "engine/cli/output/log.h"

#include <algorithm>
#include <unistd.h>

#include "fmt/format.h"
#include "spdlog/async.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/basic_file_sink.h"
#include "spdlog/spdlog.h"

#include "engine/cli/output/progress.h"
#include "vm/base/error.h"
#include "vm/base/printable.h"
#include "vm/base/signals_blocked.h"

namespace serval::cli {
namespace {

constexpr const char* kPattern = "serval: %v";

// Writes to stderr, after erasing a progress bar. A line that cannot be written is lost: there is no other
// place to report it.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), line.size());
    if (text.ends_with('\n')) text.remove_suffix(1);
    const std::string shown = printable(text) + '\n';
    erase_progress();
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, shown.data(), shown.size());
  }
  void flush_() override {}
};

// Without its middle if it is long: paths and names are as long as a person or a file makes them.
std::string shortened(std::string_view word) {
  constexpr size_t kMostBytes = 200, kEnd = kMostBytes / 2;
  if (word.size() <= kMostBytes) return std::string(word);
  const auto inside_character = [&](size_t at) {  // of a UTF-8 sequence
    return (static_cast<unsigned char>(word[at]) & 0xC0) == 0x80;
  };
  size_t head = kEnd, tail = word.size() - kEnd;
  while (head > 0 && inside_character(head)) --head;
  while (tail < word.size() && inside_character(tail)) ++tail;
  return fmt::format("{}…{}", word.substr(0, head), word.substr(tail));
}

std::string shorten_words(std::string_view text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    out += shortened(text.substr(begin, end - begin));
    if (end < text.size()) out += ' ';
    begin = end + 1;
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
  spdlog::error("error: {}", shorten_words(line));
}

struct RequestLog::Impl {
  std::shared_ptr<spdlog::details::thread_pool> thread;
  std::shared_ptr<spdlog::async_logger> logger;
};

RequestLog::RequestLog(const std::string& file) : impl_(std::make_unique<Impl>()) {
  constexpr size_t kMostLines = 8192;
  spdlog::sink_ptr sink = std::make_shared<StderrSink>();
  if (!file.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    } catch (const spdlog::spdlog_ex& error) {
      throw Error(ErrorKind::kRuntime, file + ": cannot be opened");
    }
  }
  const SignalsBlocked blocked;
  impl_->thread = std::make_shared<spdlog::details::thread_pool>(kMostLines, 1);
  impl_->logger = std::make_shared<spdlog::async_logger>("requests", std::move(sink), impl_->thread,
                                                         spdlog::async_overflow_policy::overrun_oldest);
  impl_->logger->set_pattern(file.empty() ? kPattern : "%Y-%m-%dT%H:%M:%S.%eZ %v",
                             spdlog::pattern_time_type::utc);
  impl_->logger->flush_on(spdlog::level::info);
}

RequestLog::~RequestLog() = default;

void RequestLog::write(const std::string& line) {
  impl_->logger->info("{}", printable(line));
}

}  // namespace serval::cli
