#include "vm/base/write_file.h"

#include <csignal>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

size_t files_in(const TempDir& dir) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()));
}

// While it lives, files cannot grow beyond `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(WriteFile, MakesAFileOrReplacesIt) {
  const TempDir dir;
  for (const std::string& text :
       {std::string("first"), std::string("2"), std::string(), std::string(1 << 20, 'x')}) {
    write_file(dir / "a", text);
    EXPECT_EQ(content_of(dir / "a"), text);
    EXPECT_EQ(files_in(dir), 1U);
  }
}

TEST(WriteFile, AnOlderFileOutlivesAFullDisk) {
  const TempDir dir;
  write_file(dir / "a", "good");
  const FullDisk full(1000);
  EXPECT_EQ(error_of([&] { write_file(dir / "a", std::string(5000, 'x')); }),
            (dir / "a").string() + ": cannot be written: File too large");
  EXPECT_EQ(content_of(dir / "a"), "good");
  EXPECT_EQ(files_in(dir), 1U) << "what was written has gone";
}

TEST(WriteFile, NothingHasTheNameBeforeAllIsWritten) {
  const TempDir dir;
  {
    FileWriter file(dir / "a");
    file.write("half");
    EXPECT_FALSE(fs::exists(dir / "a"));
  }
  EXPECT_EQ(files_in(dir), 0U);
  FileWriter file(dir / "a");
  file.write("all ");
  const uint16_t values[] = {0x6F66, 0x7469};
  file.write_values(std::span<const uint16_t>(values));
  file.commit();
  EXPECT_EQ(content_of(dir / "a"), "all foit");
}

TEST(WriteFile, OverwritesBytesInPlace) {
  const TempDir dir;
  FileWriter file(dir / "a");
  file.write("....data");
  file.overwrite(1, "ab");
  file.write("!");
  file.commit();
  EXPECT_EQ(content_of(dir / "a"), ".ab.data!");
}

TEST(WriteFile, KeepsAFilesPermissionsAndALink) {
  const TempDir dir;
  write_file(dir / "a", "1");
  fs::permissions(dir / "a", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", dir / "link");
  write_file(dir / "link", "2");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(content_of(dir / "a"), "2");
  EXPECT_EQ(fs::status(dir / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(WriteFile, ANewFileHasThePermissionsOfAnyOther) {
  const TempDir dir;
  const mode_t mask = umask(027);
  write_file(dir / "a", "1");
  umask(mask);
  EXPECT_EQ(static_cast<unsigned>(fs::status(dir / "a").permissions()), 0640U);
}

TEST(WriteFile, SaysWhyNot) {
  const TempDir dir;
  write_file(dir / "file", "1");
  const auto reason = [](const fs::path& path) {
    const std::string line = error_of([&] { write_file(path, "2"); });
    const std::string name = path.string() + ": cannot be written: ";
    EXPECT_TRUE(line.starts_with(name)) << line;
    return line.substr(std::min(name.size(), line.size()));
  };
  EXPECT_EQ(reason(dir / "none/a"), "No such file or directory");
  EXPECT_EQ(reason(dir / "file/a"), "Not a directory");
  EXPECT_EQ(reason(dir.path()), "Is a directory");
  EXPECT_EQ(reason("/dev/full"), "No space left on device");
  if (geteuid() == 0) return;  // root may write everything
  fs::permissions(dir / "file", fs::perms::owner_read);
  EXPECT_EQ(reason(dir / "file"), "Permission denied");
  EXPECT_EQ(content_of(dir / "file"), "1");
}

TEST(WriteFile, WritesWhatIsNoFileAsItStands) {
  write_file("/dev/null", "1");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AppendToFile, AddsAllOrNothing) {
  const TempDir dir;
  append_to_file(dir / "a", "one\n");
  append_to_file(dir / "a", "two\n");
  EXPECT_EQ(content_of(dir / "a"), "one\ntwo\n");
  const FullDisk full(10);
  EXPECT_EQ(error_of([&] { append_to_file(dir / "a", "three\n"); }),
            (dir / "a").string() + ": cannot be written: File too large");
  EXPECT_EQ(content_of(dir / "a"), "one\ntwo\n");
}

}  // namespace
}  // namespace serval
