// What the system knows about this process, as Prometheus' client libraries report it (process_*).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace serval::server {

struct ProcessStats {
  double cpu_seconds = 0;  // user and system
  double start_time = 0;   // seconds since 1970
  uint64_t resident_bytes = 0, virtual_bytes = 0;
  uint64_t open_files = 0, max_files = 0;
};

// The fields of /proc/PID/stat that ProcessStats needs (man 5 proc).
struct ProcStat {
  uint64_t user_ticks = 0, system_ticks = 0;
  uint64_t start_ticks = 0;  // since the system has booted
  uint64_t virtual_bytes = 0, resident_pages = 0;
};
// Returns none for text of another form. A program's name may contain spaces and parentheses.
std::optional<ProcStat> parse_proc_stat(const std::string& text);

// Returns none where /proc cannot be read. Thread-safe.
std::optional<ProcessStats> read_process_stats();

}  // namespace serval::server
