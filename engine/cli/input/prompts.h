// Where prompts come from: -p, -f with one prompt a line, --prompt-file with one in all.
#pragma once

#include <string>
#include <vector>

#include "engine/cli/flags/flags.h"

namespace serval::cli {

inline constexpr size_t kMaxPromptFileBytes = 16 << 20;
inline constexpr size_t kMaxPrompts = 4096;

// Bytes that are not UTF-8 replaced by U+FFFD.
std::string repair_utf8(const std::string& text);

// What a file, or stdin as "-", holds. Throws Error(kRuntime) naming the file that cannot be read or has more
// than kMaxPromptFileBytes.
std::string read_all(const std::string& name);

class PromptFlags {
 public:
  void declare(FlagSet& flags);
  // All prompts in the order in which they were given, repaired to UTF-8. Reads the files. Throws
  // Error(kUsage) if there is none or one is empty, and Error(kRuntime) naming the file that cannot be read
  // or breaks a limit.
  std::vector<std::string> collect() const;
  // Whether -f has brought some.
  bool from_lines() const;

 private:
  enum class Kind { kText, kFileOfPrompts, kFileOfOne };
  struct Source {
    Kind kind;
    bool from_environment;
    std::string text;  // the prompt or the file's name
  };
  std::vector<Source> used() const;

  std::vector<Source> sources_;
};

}  // namespace serval::cli
