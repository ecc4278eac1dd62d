// Where prompts come from: -p, and -f with one prompt a line.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/flags/flags.h"

namespace serval::cli {

inline constexpr size_t kMaxPromptFileBytes = 16 << 20;
inline constexpr size_t kMaxPrompts = 4096;

// Bytes that are not UTF-8 replaced by U+FFFD.
std::string repair_utf8(const std::string& text);

class PromptFlags {
 public:
  void declare(FlagSet& flags);
  // All prompts in the order in which they were given, repaired to UTF-8. Reads the files. Throws
  // Error(kUsage) if there is none or one is empty, and Error(kRuntime) naming the file that cannot be read
  // or breaks a limit.
  std::vector<std::string> collect() const;

 private:
  struct Source {
    bool is_file;
    bool from_environment;
    std::string text;  // the prompt or the file's name
  };
  std::vector<Source> sources_;
};

}  // namespace serval::cli
