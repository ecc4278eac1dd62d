#include "models/checkpoint/host_buffer.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <sys/mman.h>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval {
namespace {

[[noreturn]] void fail(const std::string& purpose, size_t bytes, size_t available) {
  constexpr double kGigabyte = 1e9;
  throw Error(ErrorKind::kOutOfMemory, fmt::format("{}: needs {:.2f} GB of memory; {:.2f} GB are available",
                                                   purpose, static_cast<double>(bytes) / kGigabyte,
                                                   static_cast<double>(available) / kGigabyte));
}

}  // namespace

size_t available_host_memory() {
  constexpr size_t kBytesPerKilobyte = 1024;
  std::ifstream info("/proc/meminfo");
  std::string field;
  while (info >> field) {
    size_t kilobytes = 0;
    if (field == "MemAvailable:" && info >> kilobytes) return kilobytes * kBytesPerKilobyte;
  }
  return std::numeric_limits<size_t>::max();  // unknown: let the allocation decide
}

HostBuffer::HostBuffer(size_t bytes, const std::string& purpose) {
  if (bytes == 0) return;
  const size_t available = available_host_memory();
  if (bytes > available) fail(purpose, bytes, available);
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) fail(purpose, bytes, available);
  madvise(address, bytes, MADV_HUGEPAGE);  // a hint; fewer page faults and TLB misses
  bytes_ = {static_cast<std::byte*>(address), bytes};
}

HostBuffer::~HostBuffer() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace serval
