// Lines for a person, on stderr. Thread-safe. Each stays one line: control characters, and others that would
// break or reorder it, are written as escapes (vm/base/printable.h).
#pragma once

#include <memory>
#include <string>

namespace serval::cli {

void start_log();
// trace, debug, info, warn or error. Lines below the level are not written.
void set_log_level(const std::string& level);

void log_debug(const std::string& line);
void log_info(const std::string& line);
void log_warning(const std::string& line);
// The line that explains a failing exit code.
void log_error(const std::string& line);

// Machine-readable lines with timestamps, written by a separate thread. Lines that cannot be written in time,
// or at all, are dropped; no caller waits for them. Appends to `file`; empty: stderr.
class RequestLog {
 public:
  explicit RequestLog(const std::string& file);  // throws Error(kRuntime) if it cannot be opened
  ~RequestLog();                                 // writes the lines that are queued
  void write(const std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval::cli
