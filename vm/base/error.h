// The one exception type of the project: what went wrong, for a person, and the exit code it maps to.
#pragma once

#include <stdexcept>
#include <string>

namespace serval {

// The numeric value is the process's exit code.
enum class ErrorKind : int {
  kRuntime = 1,      // a file, checkpoint or program is missing, damaged or unsupported
  kUsage = 2,        // a flag or an argument of the API is out of range
  kOutOfMemory = 3,  // host memory, device memory or KV blocks are exhausted
  kDeviceFault = 4,  // the interpreter faulted or made no progress
};

// `what()` is one line: the file or object, the field, what was found and the limit it broke.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

}  // namespace serval
