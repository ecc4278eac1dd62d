// Atomic writes of directories: the files are written to a directory of a temporary name, which then gets the
// final name. So a directory of that name is whole, whenever the program ends.
#pragma once

#include <filesystem>

namespace serval {

// Not thread-safe.
class DirectoryWriter {
 public:
  // Makes the temporary directory beside `target`, whose parent must exist. Throws Error(kRuntime) with one
  // line: `target` is a file or a directory that is not empty, or cannot be made.
  explicit DirectoryWriter(const std::filesystem::path& target);
  // Without commit(), removes what was written.
  ~DirectoryWriter();
  DirectoryWriter(const DirectoryWriter&) = delete;
  DirectoryWriter& operator=(const DirectoryWriter&) = delete;

  // Where to write the files.
  const std::filesystem::path& path() const { return temporary_; }
  // Gives the directory its name. The last call. Throws as the constructor does.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty after commit()
};

}  // namespace serval
