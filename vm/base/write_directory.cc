#include "vm/base/write_directory.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewDirectoryMode = 0777;  // less the umask

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: cannot be written: {}", path.string(), reason));
}

void check_is_free(const fs::path& target) {
  std::error_code error;
  if (!fs::exists(target, error)) return;
  if (!fs::is_directory(target, error)) fail(target, "it exists and is not a directory");
  const bool empty = fs::is_empty(target, error);
  if (error) fail(target, error.message());
  if (!empty) fail(target, "the directory exists and is not empty");
}

// Where a link to an empty directory points; without a slash at the end.
fs::path without_links(const fs::path& target) {
  std::error_code error;
  fs::path path = fs::exists(target, error) ? fs::canonical(target, error) : fs::absolute(target, error);
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

DirectoryWriter::DirectoryWriter(const fs::path& target) : target_(without_links(target)) {
  check_is_free(target_);
  for (int number = 0;; ++number) {
    temporary_ = target_.parent_path() / fmt::format(".serval-{}-{}.tmp", getpid(), number);
    if (mkdir(temporary_.c_str(), kNewDirectoryMode) == 0) return;
    if (errno != EEXIST) fail(target, std::strerror(errno));
  }
}

DirectoryWriter::~DirectoryWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void DirectoryWriter::commit() {
  check_is_free(target_);
  // Replaces an empty directory, and nothing else.
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(target_, std::strerror(errno));
  temporary_.clear();
}

}  // namespace serval
