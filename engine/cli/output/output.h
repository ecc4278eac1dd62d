// Standard output: only what the command was asked to print.
#pragma once

#include <exception>
#include <string_view>

namespace serval::cli {

// The reader of the pipe has closed it. The program ends silently with status 141, as if SIGPIPE had ended
// it.
class OutputClosed : public std::exception {
 public:
  const char* what() const noexcept override { return "stdout is closed"; }
};

// Writes all of `text` before it returns; nothing is buffered. Throws OutputClosed, or Error(kRuntime) with
// "stdout" and the system's message.
void write_stdout(std::string_view text);

// Opens /dev/null on standard descriptors that the caller closed, so that no file of the model becomes
// "stdout".
void reserve_standard_descriptors();

}  // namespace serval::cli
