// The weight formats that a kernel has code for.
#pragma once

#include <cstdint>
#include <tuple>

#include "vm/layout/e4m3_image.h"

namespace serval::device::formats {

// Formats are numbered in order; a tensor's address carries its format's number (vm/device/typed_address.h).
template <class First, class... Others>
struct FormatSet {
  static constexpr uint32_t kCount = 1 + sizeof...(Others);
  // The format of most weights of a program that needs them all.
  using Last = std::tuple_element_t<kCount - 1, std::tuple<First, Others...>>;
  static constexpr bool kHasScales = First::kHasScales || (... || Others::kHasScales);
  // Calls visit(Format()) for format number `number`.
  template <class Visit>
  static __device__ __forceinline__ auto with(uint32_t number, Visit&& visit) {
    if constexpr (sizeof...(Others) > 0) {
      if (number != 0) return FormatSet<Others...>::with(number - 1, visit);
    }
    return visit(First());
  }
};

// Panels in a page of format number `number`.
__device__ __forceinline__ uint32_t panels_of_page(uint32_t number) {
  return number == 0 ? 1 : e4m3_image::kPanelsOfPage;
}

}  // namespace serval::device::formats
