#include "engine/server/metrics/process_stats.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace serval::server {
namespace {

std::string text_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// When the system has booted, in seconds since 1970.
std::optional<double> boot_time() {
  std::ifstream lines("/proc/stat");
  for (std::string name; lines >> name; std::getline(lines, name)) {
    double seconds = 0;
    if (name == "btime" && lines >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<uint64_t> count_open_files() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  const auto all = static_cast<uint64_t>(std::distance(begin(files), end(files)));
  return all - 1;  // without the one that lists them
}

uint64_t most_open_files() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace

std::optional<ProcStat> parse_proc_stat(const std::string& text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  constexpr int kState = 3, kUserTicks = 14, kSystemTicks = 15, kStart = 22, kVirtual = 23, kResident = 24;
  ProcStat stat;
  for (int field = kState; field <= kResident; ++field) {
    std::string word;
    if (!(rest >> word)) return std::nullopt;
    uint64_t* const target = field == kUserTicks     ? &stat.user_ticks
                             : field == kSystemTicks ? &stat.system_ticks
                             : field == kStart       ? &stat.start_ticks
                             : field == kVirtual     ? &stat.virtual_bytes
                             : field == kResident    ? &stat.resident_pages
                                                     : nullptr;
    if (target != nullptr && !(std::istringstream(word) >> *target)) return std::nullopt;
  }
  return stat;
}

std::optional<ProcessStats> read_process_stats() {
  const auto stat = parse_proc_stat(text_of("/proc/self/stat"));
  const auto booted = boot_time();
  const auto open_files = count_open_files();
  if (!stat || !booted || !open_files) return std::nullopt;
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return ProcessStats{
      .cpu_seconds = static_cast<double>(stat->user_ticks + stat->system_ticks) / ticks_per_second,
      .start_time = *booted + static_cast<double>(stat->start_ticks) / ticks_per_second,
      .resident_bytes = stat->resident_pages * page_bytes,
      .virtual_bytes = stat->virtual_bytes,
      .open_files = *open_files,
      .max_files = most_open_files()};
}

}  // namespace serval::server
