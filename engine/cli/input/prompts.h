// The sources of prompts: -p; -f, with one prompt per line; --prompt-file, with one prompt in all;
// --prompt-ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/cli/flags/flags.h"

namespace serval::cli {

inline constexpr size_t kMaxPromptFileBytes = 16 << 20;
inline constexpr size_t kMaxPrompts = 4096;

// Replaces bytes that are not UTF-8 by U+FFFD.
std::string repair_utf8(const std::string& text);

// The content of a file, or of stdin for "-". Throws Error(kRuntime) naming the file if it cannot be read or
// has more than kMaxPromptFileBytes.
std::string read_all(const std::string& name);

struct Prompt {
  std::string text;          // UTF-8
  std::vector<int32_t> ids;  // if not empty, they are the prompt
};

class PromptFlags {
 public:
  void declare(FlagSet& flags);
  // Declares --prompt-ids, for commands that run the prompts.
  void declare_ids(FlagSet& flags);
  // All prompts in the order in which they were given, repaired to UTF-8. Reads the files. Throws
  // Error(kUsage) if there is none or one is empty, and Error(kRuntime) naming the file if one cannot be read
  // or exceeds a limit.
  std::vector<Prompt> collect() const;
  // Returns whether prompts come from -f.
  bool from_lines() const;

 private:
  enum class Kind { kText, kIds, kFileOfPrompts, kFileOfOne };
  struct Source {
    Kind kind;
    bool from_environment;
    std::string text;          // the prompt or the file's name
    std::vector<int32_t> ids;  // for kIds
  };
  std::vector<Source> used() const;

  bool takes_ids_ = false;
  std::vector<Source> sources_;
};

}  // namespace serval::cli
