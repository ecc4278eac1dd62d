// Lines for a person, on stderr. Thread-safe.
#pragma once

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

}  // namespace serval::cli
