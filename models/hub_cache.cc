#include "models/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <system_error>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/gguf/gguf_file.h"
#include "vm/base/error.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";
constexpr std::string_view kSeparator = "--";
constexpr const char* kMain = "main";
constexpr size_t kMaxNameBytes = 96;  // of each part; the hub's own limit

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_plain(std::string_view part) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !part.empty() && part.size() <= kMaxNameBytes && part != "." && part != ".." &&
         part.find_first_not_of(kAllowed) == std::string_view::npos;
}

struct HubName {
  std::string_view organisation, name, revision;
};

HubName parts_of(std::string_view text) {
  const size_t at = text.find('@');
  const std::string_view whole = text.substr(0, at);
  const size_t slash = whole.find('/');
  if (slash == std::string_view::npos) return {};
  return {whole.substr(0, slash), whole.substr(slash + 1),
          at == std::string_view::npos ? std::string_view(kMain) : text.substr(at + 1)};
}

// The snapshot of a revision, which is a branch, a tag or a commit.
std::optional<fs::path> find_snapshot(const fs::path& model, std::string_view revision) {
  std::string commit(revision);
  std::ifstream reference(model / "refs" / commit);
  std::string found;
  if (reference >> found && is_plain(found)) commit = found;
  std::error_code ignored;
  const fs::path snapshot = model / "snapshots" / commit;
  return fs::is_directory(snapshot, ignored) ? std::optional(snapshot) : std::nullopt;
}

fs::path model_in_snapshot(const fs::path& snapshot, const std::string& name) {
  std::error_code ignored;
  if (fs::exists(snapshot / "config.json", ignored)) return snapshot;
  const std::vector<fs::path> files = gguf_files_in(snapshot);
  if (files.size() == 1) return files.front();
  if (files.empty()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("model {}: {} has neither config.json nor a GGUF file", name, snapshot.string()));
  }
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  throw Error(ErrorKind::kRuntime,
              fmt::format("model {}: {} GGUF files ({}); give the path of one in {}", name, names.size(),
                          fmt::join(names, ", "), snapshot.string()));
}

}  // namespace

fs::path hub_cache_directory() {
  if (const std::string cache = environment_variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment_variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string xdg = environment_variable("XDG_CACHE_HOME");
  const fs::path cache = xdg.empty() ? fs::path(environment_variable("HOME")) / ".cache" : fs::path(xdg);
  return cache / "huggingface" / "hub";
}

bool is_hub_name(std::string_view name) {
  const HubName parts = parts_of(name);
  return is_plain(parts.organisation) && is_plain(parts.name) && is_plain(parts.revision);
}

std::optional<fs::path> find_in_hub_cache(const std::string& name) {
  if (!is_hub_name(name)) return std::nullopt;
  const HubName parts = parts_of(name);
  const fs::path model = hub_cache_directory() /
                         fmt::format("{}{}{}{}", kModelPrefix, parts.organisation, kSeparator, parts.name);
  const auto snapshot = find_snapshot(model, parts.revision);
  return snapshot ? std::optional(model_in_snapshot(*snapshot, name)) : std::nullopt;
}

std::vector<std::string> hub_cache_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(hub_cache_directory(), ignored)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kModelPrefix)) continue;
    name = name.substr(kModelPrefix.size());
    const size_t separator = name.find(kSeparator);
    if (separator == std::string::npos) continue;
    name.replace(separator, kSeparator.size(), "/");
    if (is_hub_name(name) && find_snapshot(entry.path(), kMain)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> gguf_files_in(const fs::path& directory) {
  static const std::regex kLaterFile(R"(.*-(\d{5})-of-\d{5}\.gguf)");
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    const bool is_later = std::regex_match(name, match, kLaterFile) && match[1] != "00001";
    if (name.ends_with(".gguf") && !is_later && looks_like_gguf(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace serval
