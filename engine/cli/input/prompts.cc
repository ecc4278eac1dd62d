#include "engine/cli/input/prompts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "fmt/format.h"

#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& why) {
  throw Error(ErrorKind::kRuntime, fmt::format("prompt file {}: {}", file, why));
}

// Owns what it opened; stdin stays open.
class InputFile {
 public:
  explicit InputFile(const std::string& name)
      : owned_(name != "-"), fd_(owned_ ? open(name.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO) {
    if (fd_ < 0) fail(name, std::strerror(errno));
  }
  ~InputFile() {
    if (owned_) close(fd_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int fd() const { return fd_; }

 private:
  bool owned_;
  int fd_;
};

// Read rather than measured, so that a pipe serves too.
std::string read_all(const std::string& name) {
  constexpr size_t kChunk = 64 << 10;
  const InputFile file(name);
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t count = read(file.fd(), text.data() + before, kChunk);
    if (count < 0 && errno != EINTR) fail(name, std::strerror(errno));
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (text.size() > kMaxPromptFileBytes) {
      fail(name, fmt::format("more than {} bytes, which is the limit", kMaxPromptFileBytes));
    }
  }
}

// One prompt a line; empty lines are none, and a carriage return before the end of a line is not part of it.
std::vector<std::string> read_prompts(const std::string& name) {
  const std::string text = read_all(name);
  std::vector<std::string> prompts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back(std::move(line));
    begin = end + 1;
  }
  if (prompts.empty()) fail(name, "holds no prompt");
  return prompts;
}

}  // namespace

std::string repair_utf8(const std::string& text) {
  std::string storage;
  return std::string(utf8_lossy(text, &storage));
}

void PromptFlags::declare(FlagSet& flags) {
  flags.group("Prompts");
  flags.list("-p,--prompt", "TEXT", "a prompt to continue; several make a batch", [this](const FlagValue& v) {
    sources_.push_back({false, v.from_environment, parse_text(v)});
  });
  flags.list("-f,--file", "FILE", "prompts from a file, one a line; - is stdin", [this](const FlagValue& v) {
    sources_.push_back({true, v.from_environment, parse_text(v)});
  });
}

std::vector<std::string> PromptFlags::collect() const {
  // A prompt on the command line, of either kind, stands before any in the environment.
  const bool given =
      std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return !s.from_environment; });
  std::vector<std::string> prompts;
  for (const Source& source : sources_) {
    if (given && source.from_environment) continue;
    if (!source.is_file) {
      prompts.push_back(repair_utf8(source.text));
      continue;
    }
    for (const std::string& line : read_prompts(source.text)) prompts.push_back(repair_utf8(line));
  }
  if (prompts.empty()) {
    throw Error(ErrorKind::kUsage, "no prompt: give -p TEXT or -f FILE; see serval generate --help");
  }
  if (prompts.size() > kMaxPrompts) {
    throw Error(ErrorKind::kUsage, fmt::format("{} prompts: the limit is {}", prompts.size(), kMaxPrompts));
  }
  return prompts;
}

}  // namespace serval::cli
