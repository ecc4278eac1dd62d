// Shared memory addresses as PTX instructions take them.
#pragma once

#include <cstdint>

namespace serval::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// An address for a loop: the compiler keeps the value instead of computing it again at each use.
class SharedAddress {
 public:
  __device__ __forceinline__ explicit SharedAddress(const void* p) : address_(shared_address(p)) {
    asm volatile("" : "+r"(address_));
  }
  __device__ __forceinline__ SharedAddress operator+(uint32_t bytes) const {
    SharedAddress sum = *this;
    sum.address_ += bytes;
    return sum;
  }
  __device__ __forceinline__ uint32_t value() const { return address_; }

 private:
  uint32_t address_;
};
__device__ __forceinline__ uint32_t shared_address(SharedAddress address) {
  return address.value();
}

}  // namespace serval::ptx
