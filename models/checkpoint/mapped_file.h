// A regular file mapped read-only for as long as the object lives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace serval {

class MappedFile {
 public:
  // Throws Error(kRuntime) that names the file where it is missing, unreadable or not a regular file. The
  // size is taken at that moment: a file that is cut short while it is mapped ends the process with SIGBUS.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Brings the pages of `bytes`, which lie in a mapped file, into memory and maps them, so that the first use
// does not fault. Only a hint: where the kernel cannot do it (Linux before 5.14), nothing happens.
void read_in(std::span<const std::byte> bytes);

}  // namespace serval
