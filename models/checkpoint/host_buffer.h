// Zeroed host memory for weights, in huge pages if the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace serval {

class HostBuffer {
 public:
  // Error lines start with `purpose`. Throws Error(kOutOfMemory) before it allocates if less than `bytes` of
  // memory is available.
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

// Bytes that can be allocated without swapping (MemAvailable in /proc/meminfo); the maximum of size_t if
// unknown.
size_t available_host_memory();

}  // namespace serval
