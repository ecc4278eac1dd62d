// The weight formats that a kernel has code for, and what a vector stream tells them.
#pragma once

#include <cstdint>
#include <tuple>

namespace serval::device::formats {

// Type in which tiles of a format's weights meet their activations.
enum class Operands : uint32_t { kBf16, kFp16, kE4M3 };

// Formats are numbered in order; a tensor's address carries its format's number (vm/device/typed_address.h).
// The last one may stand for several numbers: a format that has a member gets its own number from 0 on.
template <class First, class... Others>
struct FormatSet {
  static constexpr uint32_t kCount = 1 + sizeof...(Others);
  // The format of most weights of a program that needs them all.
  using Last = std::tuple_element_t<kCount - 1, std::tuple<First, Others...>>;
  static constexpr bool kHasScales = First::kHasScales || (... || Others::kHasScales);
  // True if some activations have scales, too.
  static constexpr bool kHasInputScales = Last::kOperands == Operands::kE4M3;
  // Slabs (vm/layout/slab_image.h) that a step of tiles multiplies, with weights in the format of this
  // number.
  static __device__ __forceinline__ uint32_t slabs_of_step(uint32_t number) {
    if constexpr (!kHasInputScales) return 1;
    return with(number, [](auto format) { return decltype(format)::kSlabsOfStep; });
  }
  // True if groups of weights in the format of this number have scales, so that pages of tiles have two
  // steps.
  static __device__ __forceinline__ bool has_groups(uint32_t number) {
    if constexpr (!Last::kMayHaveGroups) return false;
    return with(number, [](auto format) {
      if constexpr (!decltype(format)::kMayHaveGroups)
        return false;
      else
        return format.has_groups();
    });
  }
  // Calls visit(format) with the format of number `number`.
  template <class Visit>
  static __device__ __forceinline__ auto with(uint32_t number, Visit&& visit) {
    if constexpr (sizeof...(Others) > 0) {
      if (number != 0) return FormatSet<Others...>::with(number - 1, visit);
    }
    if constexpr (requires { First{number}; }) return visit(First{number});
    return visit(First());
  }
};

// A panel of a page in shared memory.
struct PanelOfPage {
  uint32_t page;       // shared address
  uint32_t index;      // of the panel in the page
  uint32_t half_cols;  // columns of a half of the panel
  uint32_t panels;     // in the page
  uint32_t last_half;  // columns of a half of the page's last panel
};

}  // namespace serval::device::formats
