#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/common/unit_softmax.h"
#include "instructions/lm_head/op.h"
#include "vm/ptx/math.cuh"

namespace serval::device {

template <>
struct DeviceOp<LmHead> : MatvecOp<DeviceOp<LmHead>> {
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const LmHead& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const LmHead& op) {
    return static_cast<uint32_t>(vocabulary_units(op.vocab));
  }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer, const LmHead& op) {
    return {.activations = tensor<&LmHead::weighted, const std::byte>(buffer),
            .squares = tensor<&LmHead::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .logits_only = true};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const LmHead& op,
                                                           uint32_t, uint32_t& unit) {
    unit -= op.weights_unit;
    return tensor<&LmHead::weights, const std::byte>(buffer);
  }

  template <class Role>
  static __device__ __forceinline__ void store_output(const Role& role, const LmHead& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched&) {
    const uint32_t unit = op.first_unit + out.unit, token = unit * kUnitRows + out.row_of_unit;
    const bool exists = token < op.vocab;
    const UnitSoftmax softmax = softmax_of_unit(sums.first, exists, role.lane);
    if (!out.wanted) return;
    if (exists) {
      ptx::store_relaxed(tensor<&LmHead::logits, float>(*role.buffer) + size_t{out.row} * op.vocab + token,
                         sums.first);
    }
    if (out.row_of_unit == 0) {
      auto* to = tensor<&LmHead::unit_softmax, float2>(*role.buffer);
      ptx::store_relaxed(to + size_t{out.row} * units(op) + unit, {softmax.largest, softmax.sum});
    }
  }

 private:
  // Of the 8 neighbouring lanes that have a unit's logits, for all of them. Where the vocabulary has ended, a
  // lane's `value` is that of a row of zeros.
  static __device__ __forceinline__ UnitSoftmax softmax_of_unit(float value, bool exists, uint32_t lane) {
    const float logit = exists ? value : -INFINITY;
    float largest = fmaxf(logit, -INFINITY);  // never NaN
#pragma unroll
    for (uint32_t step = 1; step < kUnitRows; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    }
    const uint32_t unit_lanes = __ballot_sync(~0u, logit == largest) >> (lane & ~(kUnitRows - 1));
    const float share = share_if_finite(value, ptx::exp(logit));
    const float sum = residual::add_neighbours<kUnitRows>(share, ~0u);
    const auto first = static_cast<uint32_t>(__ffs(static_cast<int>(unit_lanes))) - 1;
    return {largest, __uint_as_float(bits_with_first(__float_as_uint(sum), first))};
  }
};

}  // namespace serval::device
