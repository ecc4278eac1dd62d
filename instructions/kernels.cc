#include "instructions/kernels.h"

#include <algorithm>

#include "instructions/isa.h"
#include "instructions/planned_attention/op.h"
#include "instructions/planned_attention/plan_launch.h"
#include "vm/layout/page_image.h"
#include "vm/layout/units.h"

namespace serval {
namespace {

constexpr KernelTraits kKernels[] = {
#define SERVAL_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_E4M3_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_INT4_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_TILE_ORDER_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_TILE_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_E4M3_TILE_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_INT4_TILE_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_W8A8_TILE_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_RANKS_KERNEL(Name, ...) kernel_traits::Name,
#define SERVAL_POOLING_KERNEL(Name, ...) kernel_traits::Name,
#include "instructions/sm90/kernels.def"
#undef SERVAL_KERNEL
#undef SERVAL_E4M3_KERNEL
#undef SERVAL_INT4_KERNEL
#undef SERVAL_TILE_ORDER_KERNEL
#undef SERVAL_TILE_KERNEL
#undef SERVAL_E4M3_TILE_KERNEL
#undef SERVAL_INT4_TILE_KERNEL
#undef SERVAL_W8A8_TILE_KERNEL
#undef SERVAL_RANKS_KERNEL
#undef SERVAL_POOLING_KERNEL
};
static_assert(std::ranges::all_of(kKernels, [](const KernelTraits& k) {
  return !k.wide_tiles || k.rows <= kMostWideTileRows;
}));

WeightCodes codes_of(const Program& program) {
  const auto any = [&](auto&& is) {
    return std::ranges::any_of(program.tensors,
                               [&](const Tensor& t) { return t.kind == TensorKind::kWeight && is(t.dtype); });
  };
  if (any(is_int4)) return WeightCodes::kInt4;
  if (has_input_scales(program)) return WeightCodes::kW8A8;
  return any(has_codes) ? WeightCodes::kE4M3 : WeightCodes::kNone;
}

template <class Wanted>
uint32_t least_ring_pages(Wanted&& wanted) {
  uint32_t pages = ~0U;
  for (const KernelTraits& kernel : kKernels) {
    if (wanted(kernel)) pages = std::min(pages, kernel.ring_pages);
  }
  return pages;
}

}  // namespace

std::span<const KernelTraits> kernels() {
  return kKernels;
}

const KernelTraits& widest_kernel(uint32_t ranks) {
  const KernelTraits* widest = nullptr;
  for (const KernelTraits& kernel : kKernels) {
    if (kernel.of_ranks != (ranks > 1) || kernel.pools) continue;
    if (widest == nullptr || kernel.rows >= widest->rows) widest = &kernel;
  }
  return *widest;
}

bool takes_wide_tiles(uint32_t rows, uint32_t head_dim, WeightCodes codes) {
  const auto* kernel = std::ranges::find_if(kKernels, [&](const KernelTraits& k) {
    return k.tile_rows > 0 && k.rows >= rows && k.head_dim == head_dim && k.codes == codes;
  });
  return kernel != std::end(kKernels) && kernel->wide_tiles;
}

uint32_t tile_ring_pages() {
  return least_ring_pages([](const KernelTraits& kernel) { return kernel.tile_rows > 0; });
}

uint32_t ring_pages_of(WeightCodes codes) {
  return least_ring_pages(
      [&](const KernelTraits& kernel) { return kernel.codes == codes && kernel.tile_rows == 0; });
}

uint32_t tile_order_ring_pages() {
  return least_ring_pages([](const KernelTraits& kernel) { return kernel.tile_order; });
}

bool has_room_for_row(const KernelTraits& kernel, uint32_t cols) {
  return kernel.rows * page_image::panels(cols) <= kernel.activation_rows;
}

bool runs(const KernelTraits& kernel, const Program& program) {
  if (kernel.of_ranks != (program.num_devices > 1)) return false;
  if (has_pooling(program) != kernel.pools) return false;
  if ((program.order == Order::kTile) != (kernel.tile_rows > 0)) return false;
  if ((program.order == Order::kVectorInTileOrder) != kernel.tile_order) return false;
  if (codes_of(program) != kernel.codes) return false;
  if (!kernel.head_norms && has_head_norms(program)) return false;
  if (!kernel.wide_tiles && has_wide_tiles(program)) return false;
  if (kernel.tile_order && !has_room_for_row(kernel, most_product_cols(program))) return false;
  if (const auto attention = attention_plan_shape(program);
      (kernel.single_rows || kernel.tile_order) && attention && attention->group_heads > kNarrowQueries)
    return false;
  return kernel.head_dim == 0 || program.heads.none() || kernel.head_dim == program.heads.head_dim;
}

}  // namespace serval
