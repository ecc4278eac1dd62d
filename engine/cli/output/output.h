// Standard output: what the command was asked for, and nothing else.
#pragma once

#include <exception>
#include <string_view>

namespace serval::cli {

// The reader of a pipe has gone. The program ends quietly with status 141, as if SIGPIPE had ended it.
class OutputClosed : public std::exception {
 public:
  const char* what() const noexcept override { return "stdout is closed"; }
};

// Writes all of it before it returns; nothing is buffered. Throws OutputClosed, or Error(kRuntime) naming
// stdout and what the system said.
void write_stdout(std::string_view text);

// Gives the standard descriptors that the caller closed to /dev/null, so that no file of the model becomes
// "stdout".
void reserve_standard_descriptors();

}  // namespace serval::cli
