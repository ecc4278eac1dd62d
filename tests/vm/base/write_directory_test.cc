// Directories are whole or absent, and nothing that exists is lost.
#include "vm/base/write_directory.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/checkpoint/test_files.h"
#include "vm/base/write_file.h"

namespace serval {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

size_t entries_in(const fs::path& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(WriteDirectory, GetsItsNameWhenItIsWhole) {
  const TempDir dir;
  DirectoryWriter writer(dir / "out");
  write_file(writer.path() / "a", "text");
  EXPECT_FALSE(fs::exists(dir / "out"));
  writer.commit();
  EXPECT_TRUE(fs::exists(dir / "out" / "a"));
  EXPECT_EQ(entries_in(dir.path()), 1);
}

TEST(WriteDirectory, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    const DirectoryWriter writer(dir / "out");
    write_file(writer.path() / "a", "text");
  }
  EXPECT_EQ(entries_in(dir.path()), 0);
}

TEST(WriteDirectory, ReplacesAnEmptyDirectoryAndOneThatALinkNames) {
  const TempDir dir;
  fs::create_directory(dir / "empty");
  fs::create_directory_symlink(dir / "empty", dir / "link");
  DirectoryWriter writer(dir.path().string() + "/link/");
  write_file(writer.path() / "a", "text");
  writer.commit();
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_TRUE(fs::exists(dir / "empty" / "a"));
}

TEST(WriteDirectory, RefusesWhatExists) {
  const TempDir dir;
  dir.write("file", "x");
  EXPECT_THAT(error_of([&] { DirectoryWriter writer(dir / "file"); }), HasSubstr("not a directory"));
  EXPECT_THAT(error_of([&] { DirectoryWriter writer(dir.path()); }), HasSubstr("is not empty"));
  DirectoryWriter late(dir / "out");
  fs::create_directory(dir / "out");
  std::ofstream(dir / "out" / "mine") << "x";
  EXPECT_THAT(error_of([&] { late.commit(); }), HasSubstr("is not empty"));
  EXPECT_TRUE(fs::exists(dir / "out" / "mine"));
}

TEST(WriteDirectory, RefusesAParentThatDoesNotExist) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { DirectoryWriter writer(dir / "no/out"); }),
              HasSubstr("no/out: cannot be written: No such file or directory"));
}

}  // namespace
}  // namespace serval
