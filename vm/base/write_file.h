// Writing files so that a name never stands for half a file: what is written gets its name once it is whole
// and on the disk, and until then an older file of that name stays as it is.
//
// All of it throws Error(kRuntime): "PATH: cannot be written: REASON". What is not a regular file (a pipe, a
// terminal, /dev/null) is written as it stands. A symbolic link to a file stays, and the file is replaced.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace serval {

// One file, written piece by piece. Not thread-safe.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  // Without commit() nothing is left of what was written.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  template <class T>
  void write_values(std::span<const T> values) {
    write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  // The last call: the file is there.
  void commit();

 private:
  void open_beside(const std::filesystem::path& target);
  [[noreturn]] void fail() const;  // for errno's reason

  const std::filesystem::path path_;  // as messages name it
  std::filesystem::path target_;      // what becomes of temporary_; empty where that is
  std::filesystem::path temporary_;   // empty if path_ is written as it stands, or the file is there
  int fd_ = -1;
};

// The whole file at once.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// Adds to the end of the file, or makes it: all of `bytes`, or nothing.
void append_to_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace serval
