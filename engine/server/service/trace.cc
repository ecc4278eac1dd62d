#include "engine/server/service/trace.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "engine/server/api/api_error.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval::server {
namespace {

// A temporary folder; the destructor removes it and its files.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "serval-trace-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::kRuntime, name + ": cannot be created: " + std::strerror(errno));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

int trace_tokens_of(const std::string& query) {
  constexpr std::string_view kName = "tokens=";
  if (query.empty()) return 0;
  int tokens = 0;
  const char* const end = query.data() + query.size();
  const bool named = query.starts_with(kName);
  const auto [rest, error] = std::from_chars(query.data() + (named ? kName.size() : 0), end, tokens);
  if (!named || error != std::errc() || rest != end || tokens < 1)
    refuse_parameter("tokens", "the query is " + shown(query) +
                                   "; expected tokens=N, N from 1 to what --trace-tokens keeps");
  return tokens;
}

std::string trace_of(const Engine& engine, int tokens) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "trace.json";
  engine.write_trace(file.string(), tokens);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace serval::server
