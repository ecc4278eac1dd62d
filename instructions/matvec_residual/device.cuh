#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/matvec_residual/op.h"

namespace serval::device {

template <>
struct DeviceOp<MatvecResidual> : MatvecOp<DeviceOp<MatvecResidual>> {
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const MatvecResidual& op) { return op.in_cols; }
  static __device__ __forceinline__ uint32_t units(const MatvecResidual& op) {
    return op.out_cols / kUnitRows;
  }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer,
                                                        const MatvecResidual& op) {
    return {.activations = tensor<&MatvecResidual::input, const std::byte>(buffer),
            .squares = nullptr,
            .epsilon = 0,
            .logits_only = op.logits_only != 0};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const MatvecResidual&,
                                                           uint32_t, uint32_t&) {
    return tensor<&MatvecResidual::weights, const std::byte>(buffer);
  }

  struct Fetched {
    float residual;
    uint32_t norm;  // the column's weight in the next norm, a bf16
  };
  template <class Role>
  static __device__ __forceinline__ Fetched fetch_constant(const Role& role, const MatvecResidual& op,
                                                           const matvec::Output& out) {
    if (!out.wanted) return {};
    const auto* norm = tensor<&MatvecResidual::norm, const uint16_t>(*role.buffer);
    return {.residual = 0, .norm = ptx::load_constant(norm + col_of(op, out))};
  }
  template <class Role>
  static __device__ __forceinline__ void fetch_written(const Role& role, const MatvecResidual& op,
                                                       const matvec::Output& out, Fetched& fetched) {
    if (!out.wanted) return;
    const auto* residual = tensor<&MatvecResidual::residual, const float>(*role.buffer);
    fetched.residual = ptx::load_relaxed(residual + size_t{out.row} * op.out_cols + col_of(op, out));
  }
  template <class Role>
  static __device__ __forceinline__ void store_output(const Role& role, const MatvecResidual& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched& fetched) {
    const residual::Place to{tensor<&MatvecResidual::residual, float>(*role.buffer),
                             tensor<&MatvecResidual::weighted, std::byte>(*role.buffer),
                             tensor<&MatvecResidual::squares, float>(*role.buffer), op.out_cols,
                             Role::Config::kTileOrder ? op.max_rows : 0};
    const float value = Role::Config::kTileOrder ? matvec::add_in_order(fetched.residual, sums, op.parts)
                                                 : fetched.residual + sums.first;
    residual::store(to, out.row, col_of(op, out), value, static_cast<uint16_t>(fetched.norm), out.wanted,
                    ~0u);
  }

 private:
  static __device__ __forceinline__ uint32_t col_of(const MatvecResidual& op, const matvec::Output& out) {
    return (op.first_unit + out.unit) * kUnitRows + out.row_of_unit;
  }
};

}  // namespace serval::device
