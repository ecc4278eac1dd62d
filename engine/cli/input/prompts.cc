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

// Closes what it opened; stdin stays open.
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

}  // namespace

// Reads to the end without asking for the size, so that pipes work too.
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
      fail(name, fmt::format("longer than the limit of {} bytes", kMaxPromptFileBytes));
    }
  }
}

namespace {

// One prompt per line. Empty lines are skipped, and a carriage return at the end of a line is removed.
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

std::string read_one_prompt(const std::string& name) {
  std::string text = read_all(name);
  if (text.empty()) fail(name, "holds no prompt");
  return text;
}

}  // namespace

std::string repair_utf8(const std::string& text) {
  std::string storage;
  return std::string(utf8_lossy(text, &storage));
}

void PromptFlags::declare(FlagSet& flags) {
  flags.group("Prompts");
  flags.list("-p,--prompt", "TEXT", "a prompt to continue; several make a batch", [this](const FlagValue& v) {
    sources_.push_back({Kind::kText, v.from_environment, parse_text(v), {}});
  });
  flags.list("-f,--file", "FILE", "prompts from a file, one a line; - is stdin", [this](const FlagValue& v) {
    sources_.push_back({Kind::kFileOfPrompts, v.from_environment, parse_text(v), {}});
  });
  flags.list("--prompt-file", "FILE", "one prompt from a file, its newlines included; - is stdin",
             [this](const FlagValue& v) {
               sources_.push_back({Kind::kFileOfOne, v.from_environment, parse_text(v), {}});
             });
}

void PromptFlags::declare_ids(FlagSet& flags) {
  takes_ids_ = true;
  flags.list("--prompt-ids", "IDS", "a prompt as token ids, as 3067,383,258; no BOS is added",
             [this](const FlagValue& v) {
               const std::vector<int> ids = parse_integer_list(v, 0, INT32_MAX);
               sources_.push_back({Kind::kIds, v.from_environment, "", {ids.begin(), ids.end()}});
             });
}

// If the command line has a prompt of any kind, prompts from the environment are ignored.
std::vector<PromptFlags::Source> PromptFlags::used() const {
  std::vector<Source> sources = sources_;
  const auto from_environment = [](const Source& source) { return source.from_environment; };
  if (!std::ranges::all_of(sources, from_environment)) std::erase_if(sources, from_environment);
  return sources;
}

bool PromptFlags::from_lines() const {
  const std::vector<Source> sources = used();
  return std::ranges::any_of(sources, [](const Source& s) { return s.kind == Kind::kFileOfPrompts; });
}

std::vector<Prompt> PromptFlags::collect() const {
  std::vector<Prompt> prompts;
  const auto add = [&](const std::string& text) { prompts.push_back({repair_utf8(text), {}}); };
  for (const Source& source : used()) {
    switch (source.kind) {
      case Kind::kText:
        add(source.text);
        break;
      case Kind::kIds:
        prompts.push_back({"", source.ids});
        break;
      case Kind::kFileOfOne:
        add(read_one_prompt(source.text));
        break;
      case Kind::kFileOfPrompts:
        std::ranges::for_each(read_prompts(source.text), add);
    }
  }
  if (prompts.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("no prompt: give -p TEXT, -f FILE{} --prompt-file FILE",
                                               takes_ids_ ? ", --prompt-ids IDS or" : " or"));
  }
  if (prompts.size() > kMaxPrompts) {
    throw Error(ErrorKind::kUsage, fmt::format("{} prompts; limit: {}", prompts.size(), kMaxPrompts));
  }
  return prompts;
}

}  // namespace serval::cli
