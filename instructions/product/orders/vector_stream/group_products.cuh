// Products of a vector stream whose weights are codes with a scale for each group of columns
// (instructions/product/orders/vector_stream.cuh).
//
// The sum over a panel is the sum of two, one for each half of its columns. In a half, step after step and
// group after group: a sum of products of codes less their zero point, in fp32, is multiplied by the group's
// scale and added (fused). If groups have minima, the step's sums of activations times the minima are added
// before. A group's products are two chains, the even ones and the odd ones, or one chain if there are two
// products only. A panel that is not whole is multiplied as if each pair of products were a group.
//
// Codes are widened in a loop between products, not when a page has landed: the loop is short, so it stays in
// the smallest instruction cache, and the two overlap. The sums of a step are added during the next one.
#pragma once

#include <cstdint>

#include "instructions/product/orders/vector_stream/plan.cuh"
#include "vm/device/architecture.cuh"
#include "vm/layout/activation_image.h"
#include "vm/layout/page_image.h"
#include "vm/ptx/memory.cuh"

namespace serval::device::vector_stream {

inline constexpr uint32_t kRowsOfProduct = 4;  // rows of the pass in one 8-column operand
inline constexpr uint32_t kPairBytes = 64;     // bytes of a row's half that two products cover

// Sets of kRowsOfProduct rows of a pass.
template <class Config>
inline constexpr uint32_t kRowSets = (Config::kRows + kRowsOfProduct - 1) / kRowsOfProduct;

// Shared addresses of the lane's column of the activations of each set.
template <class Config>
struct SetAddresses {
  uint32_t of[kRowSets<Config>];

  // Columns without a row repeat the last row; their results are not used.
  __device__ __forceinline__ SetAddresses(uint32_t panel, uint32_t lane, uint32_t rows) {
    const uint32_t column = lane / 4;
    const uint32_t lane_columns = panel + column % 2 * activation_image::kHalfStride + lane % 4 * 16;
#pragma unroll
    for (uint32_t set = 0; set < kRowSets<Config>; ++set)
      of[set] = lane_columns + min(set * kRowsOfProduct + column / 2, rows - 1) * kActivationRowBytes;
  }
};

// The sums of the rows of a pass with one panel.
template <class Format, class Step, uint32_t kSets>
class GroupSums {
 public:
  // Adds the products of step `index`. Of the sets, those from `sets` on have no rows.
  __device__ __forceinline__ void add(const Step& step, uint32_t index, const uint32_t (&x)[kSets],
                                      uint32_t sets) {
    uint4 even[Step::kPairs], odd[Step::kPairs];
    step.widen(even, odd);
    const bool has_minima = __any_sync(kAllLanes, step.has_minimum());
#pragma unroll
    for (uint32_t set = 0; set < kSets; ++set) {
      if (set > 0 && set >= sets) break;
      uint4 columns[Step::kPairs];
#pragma unroll
      for (uint32_t i = 0; i < Step::kPairs; ++i)
        columns[i] = ptx::shared_load(x[set] + (index * Step::kPairs + i) * kPairBytes);
      add_last(set);
      if (has_minima) add_minima(step, columns, totals_[set]);
#pragma unroll
      for (uint32_t group = 0; group < Step::kGroups; ++group)
        multiply_group(even, odd, columns, group, chains_[set][group]);
    }
#pragma unroll
    for (uint32_t group = 0; group < Step::kGroups; ++group) {
      scales_[0][group] = step.groups[0][group].scale();
      scales_[1][group] = step.groups[1][group].scale();
    }
  }
  // Lane l has row l / 4 of the unit for row l % 4 of the set.
  __device__ __forceinline__ float finish(uint32_t set) {
    add_last(set);
    return totals_[set][0] + totals_[set][1];
  }

 private:
  static constexpr uint32_t kPairsOfGroup = Step::kPairs / Step::kGroups;
  static constexpr uint32_t kChains = kPairsOfGroup == 1 ? 1 : 2;
  using Chains = float[kChains][4];
  using Columns = uint4[Step::kPairs];

  static __device__ __forceinline__ void multiply_group(const Columns& even, const Columns& odd,
                                                        const Columns& columns, uint32_t group,
                                                        Chains& chains) {
#pragma unroll
    for (uint32_t i = 0; i < kPairsOfGroup; ++i) {
      const uint32_t pair = group * kPairsOfGroup + i;
      const uint4& x = columns[pair];
      if (i == 0) {
        Format::begin(chains[0], even[pair], x.x, x.y);
      } else {
        Format::multiply(chains[0], even[pair], x.x, x.y);
      }
      if (i == 0 && kChains == 2) {
        Format::begin(chains[kChains - 1], odd[pair], x.z, x.w);
      } else {
        Format::multiply(chains[kChains - 1], odd[pair], x.z, x.w);
      }
    }
  }
  static __device__ __forceinline__ void add_minima(const Step& step, const Columns& columns,
                                                    float (&totals)[2]) {
    const uint4 ones = Format::ones();
#pragma unroll
    for (uint32_t group = 0; group < Step::kGroups; ++group) {
      float sums[4];
#pragma unroll
      for (uint32_t i = 0; i < kPairsOfGroup; ++i) {
        const uint4& x = columns[group * kPairsOfGroup + i];
        if (i == 0) {
          Format::begin(sums, ones, x.x, x.y);
        } else {
          Format::multiply(sums, ones, x.x, x.y);
        }
        Format::multiply(sums, ones, x.z, x.w);
      }
      totals[0] = fmaf(sums[0], step.groups[0][group].minimum(), totals[0]);
      totals[1] = fmaf(sums[3], step.groups[1][group].minimum(), totals[1]);
    }
  }
  // Adds the sums of the last step.
  __device__ __forceinline__ void add_last(uint32_t set) {
#pragma unroll
    for (uint32_t group = 0; group < Step::kGroups; ++group) {
      const Chains& chains = chains_[set][group];
      const float low = kChains == 1 ? chains[0][0] : chains[0][0] + chains[kChains - 1][0];
      const float high = kChains == 1 ? chains[0][3] : chains[0][3] + chains[kChains - 1][3];
      totals_[set][0] = fmaf(low, scales_[0][group], totals_[set][0]);
      totals_[set][1] = fmaf(high, scales_[1][group], totals_[set][1]);
    }
  }

  float totals_[kSets][2] = {};                          // of each half
  float chains_[kSets][Step::kGroups][kChains][4] = {};  // of the last step
  float scales_[2][Step::kGroups] = {};                  // of the last step
};

// Multiplies `steps` steps of a panel with its activations at shared address `x`. free(), wait() and take():
// as multiply_panel() (products.cuh) has them.
template <class Step, class Role, class Format, class Free, class Wait, class Take>
__device__ __forceinline__ void multiply_steps(const Role& role, const Format& format,
                                               const typename Format::Place& weights, uint32_t steps,
                                               uint32_t x, Free&& free, Wait&& wait, Take&& take) {
  using Config = typename Role::Config;
  constexpr uint32_t kSets = kRowSets<Config>;
  const uint32_t rows = row_bound<Config>(role.launch), sets = (rows + kRowsOfProduct - 1) / kRowsOfProduct;
  GroupSums<Format, Step, kSets> sums;
  Step step;
  step.load(format, weights, 0);
  wait();
  const SetAddresses<Config> columns(x, role.lane, rows);
#pragma unroll 1
  for (uint32_t index = 0; index < steps; ++index) {
    Step next = step;
    if (index + 1 < steps) next.load(format, weights, index + 1);
    sums.add(step, index, columns.of, sets);
    step = next;
  }
  free();
#pragma unroll
  for (uint32_t set = 0; set < kSets; ++set) {
    const uint32_t row = set * kRowsOfProduct + role.lane % 4;
    if (set > 0 && set >= sets) break;
    const float value = sums.finish(set);
    if (row < rows) take(row, value);
  }
}

// Multiplies a panel with groups. The size of groups is a constant of each of three loops.
template <class Role, class Format, class Free, class Wait, class Take>
__device__ __forceinline__ void multiply_groups(const Role& role, const Format& format,
                                                const typename Format::Place& weights, uint32_t half_cols,
                                                uint32_t x, Free&& free, Wait&& wait, Take&& take) {
  const auto steps_of = [&]<class Step>(uint32_t steps) {
    multiply_steps<Step>(role, format, weights, steps, x, free, wait, take);
  };
  constexpr uint32_t kPairs = 4;
  const auto whole = [&]<uint32_t kPairsOfGroup>() {
    using Step = typename Format::template Step<kPairs, kPairsOfGroup>;
    steps_of.template operator()<Step>(Step::kStepsOfPanel);
  };
  if (half_cols != page_image::kHalfCols) {
    steps_of.template operator()<typename Format::template Step<1, 1>>(half_cols / page_image::kPairCols);
  } else if (format.group_index == 0) {
    whole.template operator()<1>();
  } else if (format.group_index == 1) {
    whole.template operator()<2>();
  } else {
    whole.template operator()<4>();
  }
}

}  // namespace serval::device::vector_stream
