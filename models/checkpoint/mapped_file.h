// A regular file, mapped read-only during the object's lifetime.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace serval {

class MappedFile {
 public:
  // Throws Error(kRuntime) with the path if the file is missing, unreadable or not a regular file. The
  // mapping has the file's current size: if the file is truncated later, access ends the process with SIGBUS.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Loads the pages of `bytes`, a part of a mapped file, so that the first access does not fault. Only a hint:
// it does nothing on Linux before 5.14.
void populate_pages(std::span<const std::byte> bytes);

}  // namespace serval
