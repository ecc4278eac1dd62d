// Codes of 4 bits less their zero point, in pairs of fp16, which is exact.
#pragma once

#include <cstdint>

#include "vm/base/int4.h"
#include "vm/ptx/convert.cuh"

namespace serval::device::formats {

// A group's zero point z, or 0 if it has a minimum, in pairs of fp16.
struct ZeroPoint {
  uint32_t of_low;            // 1024 + z
  uint32_t negative_of_high;  // -(64 + z)

  __device__ __forceinline__ explicit ZeroPoint(uint32_t word) {
    constexpr uint32_t kBoth = 0x00010001;
    constexpr uint32_t k1024 = 0x6400, kNegative64 = 0xD400,
                       kOneFrom64 = 16;  // fp16 bits, and those of a step
    const uint32_t zero = int4::has_zero_point(word) ? int4::zero_point_of(word) : 0;
    of_low = (k1024 + zero) * kBoth;
    negative_of_high = (kNegative64 + kOneFrom64 * zero) * kBoth;
  }
  // Eight codes to four pairs of neighbouring columns.
  __device__ __forceinline__ void widen(uint32_t codes, uint32_t& a, uint32_t& b, uint32_t& c,
                                        uint32_t& d) const {
    const uint32_t further = codes >> 8;
    a = low(codes);
    b = high(codes);
    c = low(further);
    d = high(further);
  }
  // 1024 + q - (1024 + z).
  __device__ __forceinline__ uint32_t low(uint32_t codes) const {
    return ptx::subtract_fp16(ptx::low_nibbles_plus_1024(codes), of_low);
  }
  // (1024 + 16 q) / 16 - (64 + z), which is exact.
  __device__ __forceinline__ uint32_t high(uint32_t codes) const {
    constexpr uint32_t kSixteenth = 0x2C002C00;
    return ptx::fma_fp16(ptx::high_nibbles_plus_1024(codes), kSixteenth, negative_of_high);
  }
};

}  // namespace serval::device::formats
