#include "vm/base/write_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFileMode = 0666;  // less the umask
constexpr mode_t kPermissions = 07777;

[[noreturn]] void fail_to_write(const fs::path& path, int reason) {
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: cannot be written: {}", path.string(), std::strerror(reason)));
}

// Returns true if everything was written; otherwise errno has the reason.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Returns false if the file could not be synced to disk. Files that do not support fsync (EINVAL) count as
// synced.
bool sync_to_disk(int fd) {
  return fsync(fd) == 0 || errno == EINVAL;
}

// fsyncs the directory so that the rename survives a power failure. Ignores file systems that do not support
// it.
void sync_directory(const fs::path& directory) {
  const int fd = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

// A name in the directory that only this process uses.
fs::path temporary_name(const fs::path& directory, int number) {
  return directory / fmt::format(".serval-{}-{}.tmp", getpid(), number);
}

}  // namespace

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail();
  if (exists && !S_ISREG(status.st_mode)) {
    fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail();
    return;
  }
  if (exists && access(path.c_str(), W_OK) != 0) fail();
  std::error_code ignored;
  const fs::path link_target = exists ? fs::canonical(path, ignored) : path;
  open_temporary(link_target.empty() ? path : link_target);
  if (exists) (void)fchmod(fd_, status.st_mode & kPermissions);
}

void FileWriter::open_temporary(const fs::path& target) {
  target_ = target;
  for (int number = 0; fd_ < 0; ++number) {
    temporary_ = temporary_name(target.parent_path(), number);
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
    if (fd_ >= 0 || errno == EEXIST) continue;
    temporary_.clear();
    fail();
  }
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void FileWriter::fail() const {
  fail_to_write(path_, errno);
}

void FileWriter::write(std::string_view bytes) {
  if (!write_all(fd_, bytes)) fail();
}

void FileWriter::overwrite(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) fail();
    if (written <= 0) continue;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void FileWriter::commit() {
  if (!temporary_.empty() && !sync_to_disk(fd_)) fail();
  const int closed = close(fd_);
  fd_ = -1;
  if (closed != 0) fail();
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
  sync_directory(target_.parent_path());
}

void write_file(const fs::path& path, std::string_view bytes) {
  FileWriter file(path);
  file.write(bytes);
  file.commit();
}

void append_to_file(const fs::path& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kNewFileMode);
  if (fd < 0) fail_to_write(path, errno);
  const off_t end = lseek(fd, 0, SEEK_END);  // fails for a pipe, whose bytes cannot be taken back
  const bool written = write_all(fd, bytes);
  const int reason = errno;
  // If truncating fails, the partial data stays: the error that is reported is the failed write.
  [[maybe_unused]] const bool taken_back = written || end < 0 || ftruncate(fd, end) == 0;
  close(fd);
  if (!written) fail_to_write(path, reason);
}

}  // namespace serval
