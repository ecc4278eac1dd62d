// Large host memory for weights: zeroed pages, huge ones where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace serval {

class HostBuffer {
 public:
  // `purpose` says in the error line what the memory was for. Throws Error(kOutOfMemory), before it
  // allocates, where the machine has less memory available than `bytes`.
  HostBuffer(size_t bytes, const std::string& purpose);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  std::span<std::byte> bytes() const { return bytes_; }
  uint16_t* bf16(size_t byte_offset) const {
    return reinterpret_cast<uint16_t*>(bytes_.data() + byte_offset);
  }

 private:
  std::span<std::byte> bytes_;
};

// Bytes that this machine can still hand out without swapping; from /proc/meminfo.
size_t available_host_memory();

}  // namespace serval
