// Lines for a person, on stderr. Thread-safe.
#pragma once

#include <memory>
#include <string>

namespace serval::cli {

void start_log();
// trace, debug, info, warn or error: what is less than this stays unsaid.
void set_log_level(const std::string& level);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warning(const std::string& line);
// The line that explains a failing exit code. Control characters are written as escapes, so it stays one
// line.
void log_error(const std::string& line);

// Lines for machines, each with its time, written by a thread of their own: what cannot be written in time,
// or at all, is lost, and nothing waits for it. `file` is appended to; empty: stderr.
class RequestLog {
 public:
  explicit RequestLog(const std::string& file);  // Error(kRuntime) where it cannot be opened
  ~RequestLog();                                 // writes what is there
  void write(const std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval::cli
