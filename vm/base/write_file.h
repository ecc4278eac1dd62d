// Atomic writes: a file is written under a temporary name, synced to disk and then renamed, so an older file
// of that name stays intact until the new one is complete.
//
// All functions throw Error(kRuntime): "PATH: cannot be written: REASON". A path that is not a regular file
// (a pipe, a terminal, /dev/null) is written directly. A symbolic link stays; the file that it points to is
// replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace serval {

// A file that is written piece by piece. Not thread-safe.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);
  // Without commit(), discards what was written.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  template <class T>
  void write_values(std::span<const T> values) {
    write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  // Replaces bytes that have been written. The path must be a regular file.
  void overwrite(uint64_t offset, std::string_view bytes);
  // Gives the file its name. The last call.
  void commit();

 private:
  void open_temporary(const std::filesystem::path& target);
  [[noreturn]] void fail() const;  // reports errno

  const std::filesystem::path path_;  // for messages
  std::filesystem::path target_;      // final name of temporary_; empty if that is
  std::filesystem::path temporary_;   // empty if path_ is written directly, or after commit()
  int fd_ = -1;
};

// Writes a whole file.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// Appends to the file, creating it if needed: all of `bytes`, or nothing.
void append_to_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace serval
