// Addresses in shared memory as PTX takes them.
#pragma once

#include <cstdint>

namespace serval::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace serval::ptx
