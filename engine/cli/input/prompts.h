// Where prompts come from: -p, -f with one prompt a line, --prompt-file with one in all, --prompt-ids.
#pragma once

#include <cstdint>
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

struct Prompt {
  std::string text;          // UTF-8
  std::vector<int32_t> ids;  // where there are any, they are the prompt
};

class PromptFlags {
 public:
  void declare(FlagSet& flags);
  // --prompt-ids, for commands that run the prompts.
  void declare_ids(FlagSet& flags);
  // All prompts in the order in which they were given, repaired to UTF-8. Reads the files. Throws
  // Error(kUsage) if there is none or one is empty, and Error(kRuntime) naming the file that cannot be read
  // or breaks a limit.
  std::vector<Prompt> collect() const;
  // Whether -f has brought some.
  bool from_lines() const;

 private:
  enum class Kind { kText, kIds, kFileOfPrompts, kFileOfOne };
  struct Source {
    Kind kind;
    bool from_environment;
    std::string text;          // the prompt or the file's name
    std::vector<int32_t> ids;  // of kIds
  };
  std::vector<Source> used() const;

  bool takes_ids_ = false;
  std::vector<Source> sources_;
};

}  // namespace serval::cli
