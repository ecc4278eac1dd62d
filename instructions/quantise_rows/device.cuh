// `quantise_rows` on the GPU: a team of warps has a row, the fewer rows the more warps. A thread takes pairs
// of pieces of a slab's row, of its first and second half, whose elements share a piece of codes
// (vm/layout/e4m3_slab_image.h). It copies all of them to shared memory at once, looks for the largest
// magnitude and then makes the codes.
#pragma once

#include <cstdint>

#include "instructions/quantise_rows/op.h"
#include "vm/base/e4m3.h"
#include "vm/device/op.cuh"
#include "vm/device/typed_address.cuh"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/ptx/copy.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device {

template <>
struct DeviceOp<QuantiseRows> : GroupOp {
  template <class Config>
  static __device__ bool in_range(const QuantiseRows& op, const ProgramShape& program) {
    return op.cols % e4m3_slab_image::kColsOfSlab == 0 &&
           kFirstRow + bytes_of_row(op) <= Config::kScratchBytes && op.first_row < program.limits.rows &&
           op.num_rows <= program.limits.rows - op.first_row;
  }

  template <class Config>
  static __device__ __forceinline__ void run(const QuantiseRows& op, const Group& group) {
    const uint32_t most_rows = min(op.num_rows, (Config::kScratchBytes - kFirstRow) / bytes_of_row(op));
    uint32_t team_warps = kConsumerWarps;
    while (team_warps > 1 && 2 * kConsumerWarps / team_warps <= most_rows) team_warps /= 2;
    const uint32_t teams = kConsumerWarps / team_warps, team = group.warp / team_warps;
    const Share share{.input = without_type(group.tensor<&QuantiseRows::input, const std::byte>()),
                      .codes = without_type(group.tensor<&QuantiseRows::output, std::byte>()),
                      .copy = group.scratch + kFirstRow + team * bytes_of_row(op),
                      .rows = group.shape.limits.rows,
                      .pieces = slab_image::slabs(op.cols) * slab_image::kPiecesOfHalf,
                      .first = group.warp % team_warps * kWarpThreads + group.lane,
                      .step = team_warps * kWarpThreads};
    auto* largest_of_warps = reinterpret_cast<float(*)[kConsumerWarps]>(group.scratch);
    const uint32_t end = op.first_row + op.num_rows;
#pragma unroll 1
    for (uint32_t first = op.first_row, turn = 0; first < end; first += teams, turn ^= 1) {
      const uint32_t row = first + team;
      const bool wanted = row < end && contains(computed_rows(op.logits_only != 0), group.rows[row]);
      if (wanted) share.copy_row(row);
      float largest = wanted ? share.largest() : 0;
      if (team_warps > 1) {
        if (group.lane == 0) largest_of_warps[turn][group.warp] = largest;
        group.sync();
        for (uint32_t w = 0; w < team_warps; ++w)
          largest = fmaxf(largest, largest_of_warps[turn][team * team_warps + w]);
      }
      if (!wanted) continue;
      const float scale = e4m3_scale(largest);
      share.store_codes(row, 1 / scale);
      if (share.first == 0)
        ptx::store_relaxed(
            reinterpret_cast<float*>(share.codes + e4m3_slab_image::scale_offset(share.rows, op.cols, row)),
            scale);
    }
  }

 private:
  static constexpr uint32_t kFirstRow =
      2 * kConsumerWarps * sizeof(float);  // of the copies; warps' maxima before
  static __device__ __forceinline__ uint32_t bytes_of_row(const QuantiseRows& op) {
    return op.cols * static_cast<uint32_t>(sizeof(uint16_t));
  }

  // A thread's share of a row: every `step`-th piece of codes, each from a pair of pieces of the input.
  struct Share {
    const std::byte* input;
    std::byte* codes;
    std::byte* copy;  // of the row, in shared memory: first pieces of all pairs, then second pieces
    uint32_t rows;    // of the images
    uint32_t pieces;  // of codes in a row
    uint32_t first, step;

    static constexpr uint32_t kPieceBytes = slab_image::kPieceBytes;

    // Copies the thread's pieces; only this thread reads them.
    __device__ __forceinline__ void copy_row(uint32_t row) const {
#pragma unroll 4
      for (uint32_t piece = first; piece < pieces; piece += step) {
        const uint32_t slab = piece / slab_image::kPiecesOfHalf, of_slab = piece % slab_image::kPiecesOfHalf;
        const auto copy_piece = [&](uint32_t to, uint32_t from) {
          ptx::copy_async_16(copy + to * kPieceBytes, input + slab_image::piece_offset(rows, row, slab, from),
                             kPieceBytes);
        };
        copy_piece(piece, of_slab);
        copy_piece(pieces + piece, of_slab + slab_image::kPiecesOfHalf);
      }
      ptx::commit_copies();
      ptx::wait_copies<0>();
    }
    __device__ __forceinline__ uint4 low(uint32_t piece) const {
      return ptx::shared_load(ptx::shared_address(copy) + piece * kPieceBytes);
    }
    __device__ __forceinline__ uint4 high(uint32_t piece) const {
      return low(pieces + piece);
    }

    // The largest magnitude in the pieces of a warp.
    __device__ __forceinline__ float largest() const {
      uint32_t most = 0;  // two fp16
      const auto take = [&](const uint4& piece) {
        most = ptx::larger_magnitudes(ptx::larger_magnitudes(most, piece.x),
                                      ptx::larger_magnitudes(piece.y, piece.z));
        most = ptx::larger_magnitudes(most, piece.w);
      };
#pragma unroll 2
      for (uint32_t piece = first; piece < pieces; piece += step) take(low(piece)), take(high(piece));
      const float2 two = ptx::unpack_fp16(most);
      float largest = fmaxf(two.x, two.y);
#pragma unroll
      for (uint32_t lanes = kWarpThreads / 2; lanes > 0; lanes /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, lanes));
      return largest;
    }
    __device__ __forceinline__ void store_codes(uint32_t row, float inverse) const {
      const auto codes_of = [&](uint32_t low, uint32_t high) {
        const float2 a = ptx::unpack_fp16(low), b = ptx::unpack_fp16(high);
        return ptx::pack_e4m3(a.x * inverse, a.y * inverse) | ptx::pack_e4m3(b.x * inverse, b.y * inverse)
                                                                  << 16;
      };
#pragma unroll 2
      for (uint32_t piece = first; piece < pieces; piece += step) {
        const uint4 a = low(piece), b = high(piece);
        const uint64_t at = e4m3_slab_image::piece_offset(rows, row, piece / slab_image::kPiecesOfHalf,
                                                          piece % slab_image::kPiecesOfHalf);
        *reinterpret_cast<uint4*>(codes + at) = {codes_of(a.x, b.x), codes_of(a.y, b.y), codes_of(a.z, b.z),
                                                 codes_of(a.w, b.w)};
      }
    }
  };
};

}  // namespace serval::device
